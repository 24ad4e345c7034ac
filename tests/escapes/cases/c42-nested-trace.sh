#: what: the program itself traces a program without CUDA
#: expect: S
"$1/../cuda-pitfalls" trace --on sim --out inner true >/dev/null 2>&1
