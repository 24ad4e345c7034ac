# A heap limit that is set after a kernel which uses the heap was launched: it is refused with 1.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0
# shows module: module
# shows early: limit 2 = 16777216, before a launch
# shows launch: first_use launch on GPU 0
# shows late: limit 2 = 33554432, after a launch, status 1
import ctypes

import driver

HEAP = b"""
.version 6.0
.target sm_50
.address_size 64

.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 pointer);

.visible .entry take_and_give()
{
    .reg .b64 %rd<3>;
    mov.u64 %rd1, 16;
    {
        .param .b64 size;
        st.param.b64 [size], %rd1;
        .param .b64 result;
        call.uni (result), malloc, (size);
        ld.param.b64 %rd2, [result];
    }
    {
        .param .b64 pointer;
        st.param.b64 [pointer], %rd2;
        call.uni free, (pointer);
    }
    ret;
}
"""
MALLOC_HEAP_SIZE = 2

cuda = driver.Driver()
context, module, function = driver.handle(), driver.handle(), driver.handle()
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
cuda.cuCtxSetCurrent(context)
cuda.cuCtxSetLimit(MALLOC_HEAP_SIZE, ctypes.c_size_t(16 << 20))  # here: early
cuda.cuModuleLoadData(ctypes.byref(module), HEAP)  # here: module
cuda.cuModuleGetFunction(ctypes.byref(function), module, b"take_and_give")
cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)  # here: launch
cuda.cuCtxSynchronize()
print("late", cuda.unchecked.cuCtxSetLimit(MALLOC_HEAP_SIZE, ctypes.c_size_t(32 << 20)))  # here: late
