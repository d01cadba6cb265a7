// Modules and launches. A module is a library that g++ made of generated text (see cuda_host.h), not machine code of a GPU.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "state.h"

struct Module {
    void *library = nullptr;
    standin::Range shared{}, image{};
    bool watched = false;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Function {
    Module *module = nullptr;
    std::string name;
    standin::Entry entry = nullptr;
    unsigned most_threads = 1024;
    int most_dynamic = 49152;
};

namespace {

constexpr int MOST_SHARED = 232448;

#if defined(__x86_64__)
constexpr int HOST_MACHINE = EM_X86_64;
#else
constexpr int HOST_MACHINE = EM_AARCH64;
#endif

template <class T> T symbol(void *library, const std::string &name) { return reinterpret_cast<T>(dlsym(library, name.c_str())); }

standin::Range image_of(void *library) {
    link_map *map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map)) return {};
    struct Search {
        uintptr_t base;
        standin::Range found;
    } search{map->l_addr, {}};
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *data) {
            auto *search = static_cast<Search *>(data);
            if (info->dlpi_addr != search->base) return 0;
            uintptr_t low = ~uintptr_t{0}, high = 0;
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
                low = std::min(low, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                high = std::max(high, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
            }
            search->found = {reinterpret_cast<char *>(low), reinterpret_cast<char *>(high)};
            return 1;
        },
        &search);
    return search.found;
}

CUresult open_library(CUmodule *made, const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "stand-in: %s\n", dlerror());
        return CUDA_ERROR_INVALID_IMAGE;
    }
    auto shared = symbol<standin::Range (*)()>(library, "standin_shared");
    auto watched = symbol<bool (*)()>(library, "standin_watched");
    if (!shared || !watched) return CUDA_ERROR_INVALID_IMAGE;
    *made = new Module{library, shared(), image_of(library), watched(), {}};
    ++driver.modules;
    return CUDA_SUCCESS;
}

CUresult load_image(CUmodule *made, const void *image) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
    if (header.e_machine != HOST_MACHINE) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    size_t bytes = header.e_shoff + size_t{header.e_shentsize} * header.e_shnum;
    char path[] = "/tmp/standin-XXXXXX";
    int file = mkstemp(path);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    bool written = write(file, image, bytes) == static_cast<ssize_t>(bytes);
    close(file);
    CUresult status = written ? open_library(made, path) : CUDA_ERROR_OUT_OF_MEMORY;
    unlink(path);
    return status;
}

struct Running {
    const KernelLaunch *launch;
    standin::Result result;
};

void run_blocks(void (*invoke)(void *), void *state, size_t bytes, void *data) {
    auto *running = static_cast<Running *>(data);
    const KernelLaunch &launch = *running->launch;
    Function &function = *launch.function;
    standin::Launch made;
    made.kernel = function.name;
    made.grid = launch.grid, made.block = launch.block, made.dynamic = launch.dynamic;
    made.shared = function.module->shared, made.image = function.module->image;
    made.arguments = {static_cast<char *>(state), static_cast<char *>(state) + bytes};
    made.watched = function.module->watched;
    made.seed = static_cast<uint64_t>(setting("STANDIN_SEED", 0));
    running->result = standin::run(made, invoke, state);
}

}  // namespace

STANDIN_CALL cuModuleLoadDataEx(CUmodule *made, const void *image, unsigned, void *, void **) {
    ENTER_CONTEXT;
    return load_image(made, image);
}
STANDIN_CALL cuModuleLoadData(CUmodule *made, const void *image) {
    ENTER_CONTEXT;
    return load_image(made, image);
}
STANDIN_CALL cuModuleLoad(CUmodule *made, const char *path) {
    ENTER_CONTEXT;
    return open_library(made, path);
}
STANDIN_CALL cuModuleUnload(CUmodule module) {
    ENTER;
    drain_all();
    dlclose(module->library);
    delete module;
    --driver.modules;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuModuleGetFunction(CUfunction *found, CUmodule module, const char *name) {
    ENTER_CONTEXT;
    auto &function = module->functions[name];
    if (!function) {
        auto entry = symbol<standin::Entry>(module->library, std::string(name) + "__entry");
        auto threads = symbol<unsigned (*)()>(module->library, std::string(name) + "__threads");
        if (!entry || !threads) return CUDA_ERROR_NOT_FOUND;
        function.reset(new Function{module, name, entry, threads()});
    }
    *found = function.get();
    return CUDA_SUCCESS;
}
STANDIN_CALL cuModuleGetGlobal_v2(CUdeviceptr *start, size_t *bytes, CUmodule module, const char *name) {
    ENTER_CONTEXT;
    void *found = dlsym(module->library, name);
    if (start) *start = reinterpret_cast<CUdeviceptr>(found);
    if (bytes) *bytes = 0;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

STANDIN_CALL cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    ENTER_CONTEXT;
    if (attribute != 8) return CUDA_SUCCESS;  // MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (value > MOST_SHARED) return CUDA_ERROR_INVALID_VALUE;
    function->most_dynamic = value;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    ENTER_CONTEXT;
    *value = attribute == 0 ? static_cast<int>(function->most_threads) : attribute == 8 ? function->most_dynamic : 0;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuFuncSetCacheConfig(CUfunction, int) { return CUDA_SUCCESS; }
STANDIN_CALL cuFuncSetBlockShape(CUfunction, int, int, int) { return CUDA_SUCCESS; }
STANDIN_CALL cuFuncSetSharedSize(CUfunction, unsigned) { return CUDA_SUCCESS; }

CUresult checked_launch(KernelLaunch &made, void **each, void **extra) {
    Function *function = made.function;
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    const dim3 &grid = made.grid, &block = made.block;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return CUDA_ERROR_INVALID_VALUE;
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
    size_t threads = size_t{block.x} * block.y * block.z;
    if (threads > 1024 || block.z > 64) return CUDA_ERROR_INVALID_VALUE;
    if (threads > function->most_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (made.dynamic > static_cast<unsigned>(function->most_dynamic)) return CUDA_ERROR_INVALID_VALUE;
    standin::Arguments given{nullptr, 0, each};
    for (int i = 0; !each && extra && extra[i] != reinterpret_cast<void *>(CU_LAUNCH_PARAM_END); i += 2) {
        if (extra[i] == reinterpret_cast<void *>(CU_LAUNCH_PARAM_BUFFER_POINTER)) given.packed = static_cast<const char *>(extra[i + 1]);
        if (extra[i] == reinterpret_cast<void *>(CU_LAUNCH_PARAM_BUFFER_SIZE)) given.bytes = *static_cast<size_t *>(extra[i + 1]);
    }
    if (!given.each && !given.packed && given.bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!function->entry(given, nullptr, nullptr)) return CUDA_ERROR_INVALID_VALUE;
    if (each) return CUDA_ERROR_NOT_SUPPORTED;  // nobody here launches so: the sizes of the arguments are the library's alone
    made.arguments.assign(given.packed ? given.packed : "", given.packed ? given.bytes : 0);
    return CUDA_SUCCESS;
}

CUresult run_kernel(const KernelLaunch &launch) {
    ++driver.launches;
    traced("kernel: " + launch.function->name);
    if (setting("STANDIN_IDLE", 0)) return CUDA_SUCCESS;  // for measuring what a call costs on the host
    Running running{&launch, {}};
    standin::Arguments given{launch.arguments.data(), launch.arguments.size(), nullptr};
    if (!launch.function->entry(given, run_blocks, &running)) return CUDA_ERROR_INVALID_VALUE;
    if (running.result.outcome == standin::Outcome::done) return CUDA_SUCCESS;
    driver.fault = launch.function->name + ": " + running.result.what;
    std::fprintf(stderr, "stand-in: kernel %s\n", driver.fault.c_str());
    switch (running.result.outcome) {
        case standin::Outcome::illegal_address: return CUDA_ERROR_ILLEGAL_ADDRESS;
        case standin::Outcome::misaligned_address: return CUDA_ERROR_MISALIGNED_ADDRESS;
        default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

STANDIN_CALL cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                            unsigned block_z, unsigned dynamic, CUstream stream, void **each, void **extra) {
    ENTER_CONTEXT;
    KernelLaunch launch{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic, {}};
    if (CUresult status = checked_launch(launch, each, extra)) return status;
    if (Stream *capturing = stream_of(stream); capturing && capturing->capture) return capture_kernel(capturing, launch), CUDA_SUCCESS;
    return enqueue(stream, [launch] { return run_kernel(launch); });
}
