#: what: a setgid program (secure mode without another user); the injection variable is unset
#: kind: accident
#: as: nobody
#: prep: cp $D/esc-worker $D/esc-worker-sg; chgrp 4242 $D/esc-worker-sg; chmod 2755 $D/esc-worker-sg
env -u CUDA_INJECTION64_PATH "$1/esc-worker-sg" "$1" path
exit 0
