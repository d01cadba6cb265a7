/* OpenCL's calls, by which the host's side of a program uses a device. */
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#define MOST_PLATFORMS 64

struct device {
    char message[MESSAGE_BYTES];
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[KERNELS + 1];
};

static int failed(struct device *device, const char *call, cl_int error)
{
    if (error != CL_SUCCESS) snprintf(device->message, sizeof device->message, "%s: OpenCL's error %d", call, (int)error);
    return error;
}

/* The device of a number, over all platforms. */
static int device_find(struct device *device, int number)
{
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint count = 0, devices = 0, before = 0;
    const cl_int error = clGetPlatformIDs(MOST_PLATFORMS, platforms, &count);
    if (error != CL_SUCCESS) return failed(device, "clGetPlatformIDs", error);
    if (count > MOST_PLATFORMS) count = MOST_PLATFORMS;
    for (cl_uint i = 0; i < count; ++i, before += devices) {
        devices = 0;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 0, NULL, &devices) != CL_SUCCESS) devices = 0;
        if (number < 0 || (cl_uint)number < before || (cl_uint)number - before >= devices) continue;
        cl_device_id *const ids = (cl_device_id *)malloc(devices * sizeof *ids);
        if (ids == NULL) return failed(device, "malloc", CL_OUT_OF_HOST_MEMORY);
        const cl_int found = clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, devices, ids, NULL);
        device->id = ids[(cl_uint)number - before];
        free(ids);
        return failed(device, "clGetDeviceIDs", found);
    }
    snprintf(device->message, sizeof device->message, "there is no OpenCL device %d; there are %u", number, (unsigned)before);
    return CL_DEVICE_NOT_FOUND;
}

/* The message of a program that is not built: the beginning of what the compiler says, which is given whole or not at all. */
static int not_built(struct device *device, cl_int error)
{
    size_t nbytes = 0;
    char *text = NULL;
    failed(device, "clBuildProgram", error);
    if (clGetProgramBuildInfo(device->program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &nbytes) == CL_SUCCESS && nbytes != 0) text = (char *)calloc(nbytes + 1, 1);
    if (text != NULL && clGetProgramBuildInfo(device->program, device->id, CL_PROGRAM_BUILD_LOG, nbytes, text, NULL) == CL_SUCCESS) {
        const size_t length = strlen(device->message);
        snprintf(device->message + length, sizeof device->message - length, "\n%s", text);
    }
    free(text);
    return error;
}

static int device_open(struct device *device, int number)
{
    cl_int error = device_find(device, number);
    if (error != CL_SUCCESS) return error;
    device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &error);
    if (error != CL_SUCCESS) return failed(device, "clCreateContext", error);
    device->queue = clCreateCommandQueue(device->context, device->id, 0, &error);
    if (error != CL_SUCCESS) return failed(device, "clCreateCommandQueue", error);
    device->program = clCreateProgramWithSource(device->context, PROGRAM_LINES, (const char **)program_text, NULL, &error);
    if (error != CL_SUCCESS) return failed(device, "clCreateProgramWithSource", error);
    error = clBuildProgram(device->program, 1, &device->id, BUILD_OPTIONS, NULL, NULL);
    if (error != CL_SUCCESS) return not_built(device, error);
    for (int i = 0; i < KERNELS; ++i) {
        device->kernels[i] = clCreateKernel(device->program, kernels[i].name, &error);
        if (error != CL_SUCCESS) return failed(device, "clCreateKernel", error);
    }
    return CL_SUCCESS;
}

static int device_alloc(struct device *device, size_t nbytes, void **memory)
{
    cl_int error;
    *memory = clCreateBuffer(device->context, CL_MEM_READ_WRITE, nbytes, NULL, &error);
    return failed(device, "clCreateBuffer", error);
}

static void device_free(struct device *device, void *memory)
{
    (void)device;
    clReleaseMemObject((cl_mem)memory);
}

static int device_write(struct device *device, memory_place to, const void *from, size_t nbytes)
{
    return failed(device, "clEnqueueWriteBuffer", clEnqueueWriteBuffer(device->queue, (cl_mem)to.memory, CL_FALSE, to.offset, nbytes, from, 0, NULL, NULL));
}

static int device_read(struct device *device, void *to, memory_place from, size_t nbytes)
{
    return failed(device, "clEnqueueReadBuffer", clEnqueueReadBuffer(device->queue, (cl_mem)from.memory, CL_FALSE, from.offset, nbytes, to, 0, NULL, NULL));
}

static int device_copy(struct device *device, memory_place to, memory_place from, size_t nbytes)
{
    return failed(device, "clEnqueueCopyBuffer", clEnqueueCopyBuffer(device->queue, (cl_mem)from.memory, (cl_mem)to.memory, from.offset, to.offset, nbytes, 0, NULL, NULL));
}

/* A kernel takes each buffer as memory and an offset in elements, then its sizes. */
static int device_launch(struct device *device, int kernel, const memory_place *places, const int64_t *sizes, int64_t blocks)
{
    const kernel_facts *const facts = kernels + kernel;
    const size_t block = (size_t)facts->threads, all = (size_t)blocks * block;
    cl_uint argument = 0;
    cl_int error = CL_SUCCESS;
    for (int i = 0; i < facts->buffers && error == CL_SUCCESS; ++i) {
        const cl_mem memory = (cl_mem)places[i].memory;
        const cl_long offset = (cl_long)(places[i].offset / facts->bytes[i]);
        error = clSetKernelArg(device->kernels[kernel], argument++, sizeof memory, &memory);
        if (error == CL_SUCCESS) error = clSetKernelArg(device->kernels[kernel], argument++, sizeof offset, &offset);
    }
    for (int i = 0; i < facts->sizes && error == CL_SUCCESS; ++i) {
        const cl_long size = sizes[i];
        error = clSetKernelArg(device->kernels[kernel], argument++, sizeof size, &size);
    }
    if (error != CL_SUCCESS) return failed(device, "clSetKernelArg", error);
    return failed(device, "clEnqueueNDRangeKernel", clEnqueueNDRangeKernel(device->queue, device->kernels[kernel], 1, NULL, &all, &block, 0, NULL, NULL));
}

static int device_sync(struct device *device)
{
    return failed(device, "clFinish", clFinish(device->queue));
}

static void device_close(struct device *device)
{
    for (int i = 0; i < KERNELS; ++i) {
        if (device->kernels[i] != NULL) clReleaseKernel(device->kernels[i]);
    }
    if (device->program != NULL) clReleaseProgram(device->program);
    if (device->queue != NULL) clReleaseCommandQueue(device->queue);
    if (device->context != NULL) clReleaseContext(device->context);
}
