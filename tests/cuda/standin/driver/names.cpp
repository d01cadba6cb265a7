// Entry points by name, as libraries that load the driver themselves ask for them.
#include <dlfcn.h>

#include "state.h"

STANDIN_CALL cuGetProcAddress_v2(const char *name, void **found, int, cuuint64_t, int *status) {
    *found = nullptr;
    Dl_info self{};
    dladdr(reinterpret_cast<void *>(cuGetProcAddress_v2), &self);
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    for (const char *version : {"_v4", "_v3", "_v2", ""})
        if (!*found) *found = dlsym(library, (std::string(name) + version).c_str());
    if (library) dlclose(library);
    if (status) *status = *found ? 0 : 1;
    return *found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
