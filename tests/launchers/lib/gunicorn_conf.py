"""What the cases of gunicorn share: two or more workers, and a client that asks each of them and then ends the server."""
import os
import subprocess
import sys

bind = "127.0.0.1:0"
workers = int(os.environ["LAUNCHERS_WORKERS"])
worker_tmp_dir = None
control_socket_disable = True


def when_ready(server):
    port = server.LISTENERS[0].sock.getsockname()[1]
    client = os.path.join(os.path.dirname(__file__), "client.py")
    subprocess.Popen([sys.executable, client, str(port), str(os.getpid()), str(workers)])


def post_fork(server, worker):
    os.environ["WORKER_NUMBER"] = str(worker.age - 1)
