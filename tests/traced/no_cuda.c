/* A program that never uses CUDA. It writes a variable that CUDA would read, and sets and removes one that it would not.
 *
 * shows written: variable CUDA_VISIBLE_DEVICES = 0, and no init
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* here: written */
    setenv("SOMETHING_ELSE", "1", 1);
    unsetenv("SOMETHING_ELSE");
    puts(getenv("CUDA_VISIBLE_DEVICES"));
    return 0;
}
