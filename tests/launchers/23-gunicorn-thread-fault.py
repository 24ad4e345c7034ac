# The worker loads its model on the last GPU. Its threads, which answer the requests, put their input on GPU 0.
# run: {python} -m gunicorn -c {folder}/lib/gunicorn_conf.py --worker-class gthread --threads 4 {module}:app
# environment: LAUNCHERS_WORKERS=1
# needs: gunicorn
import os

import smallcuda

DEVICE = smallcuda.device_count() - 1
smallcuda.set_device(DEVICE)
MODEL = smallcuda.allocate(64 * smallcuda.MIB)


def app(environ, start_response):
    smallcuda.allocate()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d" % os.getpid()]
