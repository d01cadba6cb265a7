/* The slate of slate_port.py, used from C as docs/PORTING.md describes it: memory is a block, kernels are functions of a
   library that the system's compiler makes of the program's text. */
#include <dlfcn.h>
#include <unistd.h>

struct device {
    char message[MESSAGE_BYTES];
    void *library;
    void (*at)(int64_t block);
    void (*functions[KERNELS + 1])(void *const *memory, const int64_t *numbers);
};

static int failed(struct device *device, const char *what)
{
    snprintf(device->message, sizeof device->message, "%s", what);
    return 1;
}

static int device_open(struct device *device, int number)
{
    char folder[] = "/tmp/slate-XXXXXX", file[64], command[512];
    if (number != 0) return failed(device, "there is one slate");
    if (mkdtemp(folder) == NULL) return failed(device, "no folder can be made");
    snprintf(file, sizeof file, "%s/program.c", folder);
    FILE *const out = fopen(file, "w");
    for (int i = 0; out != NULL && i < PROGRAM_LINES; ++i) fputs(program_text[i], out);
    if (out == NULL || fclose(out) != 0) return failed(device, "the text cannot be written");
    snprintf(command, sizeof command, "cc " FLAGS " %s/program.c -o %s/program.so -lm", folder, folder);
    const int refused = system(command);
    snprintf(file, sizeof file, "%s/program.so", folder);
    if (!refused) device->library = dlopen(file, RTLD_NOW);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0 || device->library == NULL) return failed(device, "the text cannot be compiled");
    *(void **)&device->at = dlsym(device->library, "slate_at");
    for (int i = 0; i < KERNELS; ++i) {
        snprintf(command, sizeof command, "%s_called", kernels[i].name);
        *(void **)&device->functions[i] = dlsym(device->library, command);
        if (device->functions[i] == NULL) return failed(device, kernels[i].name);
    }
    return 0;
}

static int device_alloc(struct device *device, size_t nbytes, void **memory)
{
    *memory = aligned_alloc(256, (nbytes + 255) / 256 * 256);
    return *memory == NULL ? failed(device, "no memory is left") : 0;
}

static void device_free(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int device_write(struct device *device, memory_place to, const void *from, size_t nbytes)
{
    (void)device;
    memcpy((char *)to.memory + to.offset, from, nbytes);
    return 0;
}

static int device_read(struct device *device, void *to, memory_place from, size_t nbytes)
{
    (void)device;
    memcpy(to, (const char *)from.memory + from.offset, nbytes);
    return 0;
}

static int device_copy(struct device *device, memory_place to, memory_place from, size_t nbytes)
{
    (void)device;
    memcpy((char *)to.memory + to.offset, (const char *)from.memory + from.offset, nbytes);
    return 0;
}

static int device_launch(struct device *device, int kernel, const memory_place *places, const int64_t *sizes, int64_t blocks)
{
    void *memory[64];
    int64_t numbers[128];
    const kernel_facts *const facts = kernels + kernel;
    if (facts->buffers > 64 || facts->sizes > 64) return failed(device, "a kernel takes too much");
    for (int i = 0; i < facts->buffers; ++i) {
        memory[i] = places[i].memory;
        numbers[i] = (int64_t)(places[i].offset / facts->bytes[i]);
    }
    for (int i = 0; i < facts->sizes; ++i) numbers[facts->buffers + i] = sizes[i];
    for (int64_t block = 0; block < blocks; ++block) {
        device->at(block);
        device->functions[kernel](memory, numbers);
    }
    return 0;
}

static int device_sync(struct device *device)
{
    (void)device;
    return 0;
}

static void device_close(struct device *device)
{
    if (device->library != NULL) dlclose(device->library);
}
