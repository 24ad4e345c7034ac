#: what: git init, commit, gc in the background
#: expect: C
cd "$1" && rm -rf g && mkdir g && cd g && export HOME=$PWD && git init -q . && echo x > x && git add x && git -c user.name=a -c user.email=a@b commit -qm x && git gc -q --auto && git -c gc.auto=1 gc -q --auto && git log --oneline >/dev/null
