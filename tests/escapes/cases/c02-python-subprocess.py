#: what: Python's subprocess, threads, a shell pipeline
#: expect: C
import subprocess, threading, os
ts = [threading.Thread(target=lambda: subprocess.run(["ls", "/"], stdout=subprocess.DEVNULL, check=True)) for _ in range(6)]
[t.start() for t in ts]; [t.join() for t in ts]
subprocess.check_output("seq 1 100 | sort -r | head -3", shell=True); os.system("true"); os.popen("date").read()
