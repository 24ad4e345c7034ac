# The application is loaded before the workers are forked, and each worker counts the GPUs when it needs one.
# run: {python} -m gunicorn -c {folder}/lib/gunicorn_conf.py --preload {module}:app
# environment: LAUNCHERS_WORKERS=2
# needs: gunicorn
import os

import smallcuda


def app(environ, start_response):
    smallcuda.set_device(int(os.environ["WORKER_NUMBER"]) % smallcuda.device_count())
    smallcuda.allocate()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d" % os.getpid()]
