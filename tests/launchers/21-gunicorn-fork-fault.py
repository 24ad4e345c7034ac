# The application is loaded before the workers are forked, and counts its GPUs then: no worker can use them.
# run: {python} -m gunicorn -c {folder}/lib/gunicorn_conf.py --preload {module}:app
# environment: LAUNCHERS_WORKERS=2
# needs: gunicorn
import os

import smallcuda

COUNT = smallcuda.device_count()


def app(environ, start_response):
    smallcuda.set_device(int(os.environ["WORKER_NUMBER"]) % COUNT)
    smallcuda.allocate()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d" % os.getpid()]
