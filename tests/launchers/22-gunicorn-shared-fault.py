# Each worker loads its model when it starts, on GPU 0.
# run: {python} -m gunicorn -c {folder}/lib/gunicorn_conf.py {module}:app
# environment: LAUNCHERS_WORKERS={more}
# needs: gunicorn
import os

import smallcuda

MODEL = smallcuda.allocate(64 * smallcuda.MIB)


def app(environ, start_response):
    smallcuda.allocate()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d" % os.getpid()]
