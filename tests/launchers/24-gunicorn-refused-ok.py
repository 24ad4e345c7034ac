# The worker selects its device, and each thread does so too before it allocates.
# run: {python} -m gunicorn -c {folder}/lib/gunicorn_conf.py --worker-class gthread --threads 4 {module}:app
# environment: LAUNCHERS_WORKERS=2
# needs: gunicorn
import os

import smallcuda

DEVICE = int(os.environ["WORKER_NUMBER"]) % smallcuda.device_count()
smallcuda.set_device(DEVICE)


def app(environ, start_response):
    smallcuda.set_device(DEVICE)
    smallcuda.allocate_in_current_context()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pid %d" % os.getpid()]
