// A driver without a GPU: as much of it as cuDNN looks for to make plans for a GPU that is described to it. Code is taken and
// never run; whatever else is asked for is not supported.
#define NAMES(X) \
    X(cuCtxGetCurrent) X(cuCtxGetLimit) X(cuCtxPopCurrent) X(cuCtxPushCurrent) X(cuStreamGetCtx) X(cuLinkCreate) X(cuLinkAddData) \
    X(cuLinkComplete) X(cuLinkDestroy) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuDeviceGetCount) X(cuDeviceGet)
#define REFUSED(name) int name(void) { return 801; }
NAMES(REFUSED)

#define HANDLES(X) X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryGetKernel) X(cuKernelGetFunction) X(cuModuleLoadData) X(cuModuleGetFunction)
#define HANDED(name) int name(void **made) { *made = (void *)16; return 0; }
HANDLES(HANDED)

#define IGNORED(name) int name(void) { return 0; }
IGNORED(cuKernelSetAttribute) IGNORED(cuModuleUnload) IGNORED(cuLibraryUnload) IGNORED(cuTensorMapEncodeIm2col) IGNORED(cuTensorMapEncodeTiled)

int cuInit(unsigned flags) { return 100; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuKernelGetAttribute(int *value) { *value = 0; return 0; }
int cuOccupancyMaxPotentialClusterSize(int *size) { *size = 8; return 0; }
int cuGetErrorName(int error, const char **name) { *name = "not supported"; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "not supported"; return 0; }
