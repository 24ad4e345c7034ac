# Each worker loads its model when it starts, on the GPU of its number. There are more workers than GPUs.
# run: {python} -m gunicorn -c {folder}/lib/gunicorn_conf.py {module}:app
# environment: LAUNCHERS_WORKERS={more}
# needs: gunicorn
import os

import smallcuda

smallcuda.set_device(int(os.environ["WORKER_NUMBER"]) % smallcuda.device_count())
MODEL = smallcuda.allocate(64 * smallcuda.MIB)


def app(environ, start_response):
    smallcuda.allocate()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d" % os.getpid()]
