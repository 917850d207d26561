/* A CUDA driver that is not there: the functions that kernelsmith calls, on host memory.
 *
 * Compiled against the public header cuda.h, so that a signature that differs from the driver's
 * does not compile. A "cubin" is a struct image below: the address of a native kernel of the CPU
 * device. Work in a stream runs at once; captured work is kept and run when its graph is launched.
 * A native kernel that faults in memory loses the context, as on a GPU. */
#define _GNU_SOURCE
#include <cuda.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_PARAMS 64
#define PAGE ((size_t)2 << 20)

typedef void (*native_kernel)(const uint8_t *, const int32_t *, const int32_t *, int64_t, int64_t,
                              uint8_t *);

struct image {
  char magic[8]; /* "FAKECUBI" */
  uint64_t entry;
  uint32_t params;       /* the kernel's own, without the two scratch pointers */
  uint32_t arena_bytes;  /* of the native kernel */
  uint32_t scratch_bytes; /* a program needs through the scratch pointer */
  uint32_t registers;
  uint8_t size[MAX_PARAMS];
  char name[64];
};

struct launch {
  struct image *kernel;
  uint64_t slot[MAX_PARAMS];
  uint64_t scratch[2];
  unsigned grid[3], block[3], shared, cluster;
  int attributes[4], attribute_count;
};

struct node {
  int is_event;
  CUevent event;
  struct launch launch;
};

struct graph {
  int count, room;
  struct node *nodes;
};

struct event {
  struct timespec at;
  int recorded;
};

static struct {
  int started, devices, arch, no_guard;
  CUresult lost;          /* the context's fault, for good */
  CUresult pending;       /* found by the next synchronising call */
  struct graph *capture;
  struct { uint64_t to; size_t bytes; void *data; } under_way; /* one copy from pageable memory */
  char fail_in[64];
  CUresult fail_with;
  int fail_after;
  char calls[1 << 21];
  size_t called;
  struct launch last;
  long allocations, launches, modules, events, graphs, streams, contexts;
  size_t allocated;
} state = {.devices = 1, .arch = 90};

static sigjmp_buf out_of_kernel;

/* ------------------------------------------------------------------ what tests ask and set */

EXPORT void fake_reset(int devices, int arch, int no_guard) {
  memset(&state, 0, sizeof state);
  state.devices = devices;
  state.arch = arch;
  state.no_guard = no_guard;
}
EXPORT void fake_fail(const char *function, int code, int after) {
  snprintf(state.fail_in, sizeof state.fail_in, "%s", function);
  state.fail_with = code;
  state.fail_after = after;
}
EXPORT const char *fake_calls(void) { return state.calls; }
EXPORT void fake_forget_calls(void) { state.called = 0, state.calls[0] = 0; }
EXPORT const struct launch *fake_last(void) { return &state.last; }
EXPORT long fake_count(const char *what) {
  if (!strcmp(what, "allocations")) return state.allocations;
  if (!strcmp(what, "launches")) return state.launches;
  if (!strcmp(what, "modules")) return state.modules;
  if (!strcmp(what, "events")) return state.events;
  if (!strcmp(what, "graphs")) return state.graphs;
  if (!strcmp(what, "streams")) return state.streams;
  if (!strcmp(what, "contexts")) return state.contexts;
  return -1;
}

static CUresult enter(const char *function, int needs_context) {
  size_t length = strlen(function);
  if (state.called + length + 2 < sizeof state.calls) {
    memcpy(state.calls + state.called, function, length);
    memcpy(state.calls + state.called + length, "\n", 2);
    state.called += length + 1;
  }
  if (state.fail_in[0] && !strcmp(state.fail_in, function) && state.fail_after-- == 0) {
    state.fail_in[0] = 0;
    return state.fail_with;
  }
  if (needs_context && !state.started) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs_context > 1 && !state.contexts) return CUDA_ERROR_INVALID_CONTEXT;
  if (needs_context && state.lost) return state.lost;
  return CUDA_SUCCESS;
}
#define ENTER(context)                              \
  do {                                              \
    CUresult entered = enter(__func__, context);    \
    if (entered != CUDA_SUCCESS) return entered;    \
  } while (0)

/* --------------------------------------------------------------------------- device, context */

EXPORT CUresult CUDAAPI cuInit(unsigned int flags) {
  ENTER(0);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!state.devices) return CUDA_ERROR_NO_DEVICE;
  state.started = 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) { ENTER(0); *version = 12080; return 0; }
EXPORT CUresult CUDAAPI cuGetErrorName(CUresult code, const char **text) {
  *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text) {
  *text = code == 700 ? "an illegal memory access was encountered" : "told by a stand-in";
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count) { ENTER(1); *count = state.devices; return 0; }
EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(1);
  if (ordinal >= state.devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER(1);
  snprintf(name, length, "Stand-in %d", device);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER(1);
  for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i + device);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(1);
  (void)device;
  *bytes = (size_t)1 << 30;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  ENTER(1);
  (void)device;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state.arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state.arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = !state.no_guard; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER(1);
  (void)device;
  state.contexts++;
  *context = (CUcontext)&state;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(1);
  (void)device;
  state.contexts--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) { ENTER(1); (void)context; return 0; }
EXPORT CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER(2);
  (void)value;
  return limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}
EXPORT CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) { ENTER(2); return CUDA_SUCCESS; }

/* The bytes of a copy from pageable memory may arrive long after the call has returned, and a
 * stream of its own does not wait for them: here they arrive with the next call that waits. */
static void arrive(void) {
  if (!state.under_way.data) return;
  memcpy((void *)(uintptr_t)state.under_way.to, state.under_way.data, state.under_way.bytes);
  free(state.under_way.data);
  state.under_way.data = NULL;
}

static CUresult settle(void) {
  if (state.pending) state.lost = state.pending;
  state.pending = CUDA_SUCCESS;
  return state.lost;
}
EXPORT CUresult CUDAAPI cuCtxSynchronize(void) { ENTER(2); arrive(); return settle(); }

/* ---------------------------------------------------------------------------------- memory */

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  ENTER(2);
  void *found = NULL;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > (size_t)1 << 30 || posix_memalign(&found, 256, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(found, 0xA5, bytes);
  state.allocations++;
  *address = (CUdeviceptr)(uintptr_t)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
  ENTER(2);
  arrive();
  free((void *)(uintptr_t)address);
  state.allocations--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER(2);
  arrive();
  state.under_way.to = to;
  state.under_way.bytes = bytes;
  state.under_way.data = malloc(bytes);
  memcpy(state.under_way.data, from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER(2);
  arrive();
  if (settle()) return state.lost;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                             CUstream stream) {
  ENTER(2);
  (void)stream;
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                        CUstream stream) {
  ENTER(2);
  (void)stream;
  memset((void *)(uintptr_t)to, value, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                                      CUmemAllocationGranularity_flags option) {
  ENTER(2);
  if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM) return CUDA_ERROR_INVALID_VALUE;
  *bytes = PAGE;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                            CUdeviceptr wish, unsigned long long flags) {
  ENTER(2);
  if (bytes % PAGE || alignment || wish || flags) return CUDA_ERROR_INVALID_VALUE;
  void *found = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  state.allocations++;
  *address = (CUdeviceptr)(uintptr_t)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER(2);
  munmap((void *)(uintptr_t)address, bytes);
  state.allocations--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                    const CUmemAllocationProp *prop, unsigned long long flags) {
  ENTER(2);
  if (bytes % PAGE || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->requestedHandleTypes ||
      prop->win32HandleMetaData)
    return CUDA_ERROR_INVALID_VALUE;
  state.allocations++;
  *handle = bytes;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(2);
  (void)handle;
  state.allocations--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  ENTER(2);
  (void)address;
  return handle != bytes || offset || flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER(2);
  arrive();
  return mprotect((void *)(uintptr_t)address, bytes, PROT_NONE) ? CUDA_ERROR_INVALID_VALUE : 0;
}
EXPORT CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes,
                                       const CUmemAccessDesc *desc, size_t count) {
  ENTER(2);
  if (count != 1 || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
      desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  void *place = (void *)(uintptr_t)address;
  return mprotect(place, bytes, PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* --------------------------------------------------------------------------------- kernels */

EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *data) {
  ENTER(2);
  struct image *copy = calloc(1, sizeof *copy);
  /* A real cubin is taken for a kernel that does nothing: enough to walk the code around it. */
  if (!memcmp(data, "FAKECUBI", 8))
    memcpy(copy, data, sizeof *copy);
  else if (memcmp(data, "\177ELF", 4)) {
    free(copy);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  state.modules++;
  *module = (CUmodule)copy;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ENTER(2);
  free(module);
  state.modules--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ENTER(2);
  const struct image *image = (struct image *)module;
  if (image->entry && strcmp(image->name, name)) return CUDA_ERROR_NOT_FOUND;
  *function = (CUfunction)module;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction f) {
  ENTER(2);
  switch (which) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)((struct image *)f)->registers; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
  ENTER(2);
  (void)f;
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return value <= 227 << 10 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  return which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED ? 0 : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  ENTER(2);
  (void)f;
  return config == CU_FUNC_CACHE_PREFER_SHARED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                                    int threads, size_t shared) {
  ENTER(2);
  (void)f, (void)shared;
  *blocks = 2048 / threads;
  return CUDA_SUCCESS;
}

static void leave_kernel(int number) { siglongjmp(out_of_kernel, number); }

static CUresult run_kernel(const struct launch *one) {
  if (!one->kernel->entry) return CUDA_SUCCESS;
  struct sigaction ours = {.sa_handler = leave_kernel}, segv, bus;
  int64_t programs = (int64_t)(one->grid[0] / one->cluster) * one->grid[1] * one->grid[2];
  int32_t grid[3] = {(int32_t)(one->grid[0] / one->cluster), (int32_t)one->grid[1],
                     (int32_t)one->grid[2]};
  size_t wanted = (size_t)one->kernel->scratch_bytes * (size_t)programs;
  if (wanted && !one->scratch[0]) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (wanted) memset((void *)(uintptr_t)one->scratch[0], 0x5C, wanted);
  void *arena = NULL;
  if (posix_memalign(&arena, 64, one->kernel->arena_bytes + 64)) return CUDA_ERROR_OUT_OF_MEMORY;
  sigaction(SIGSEGV, &ours, &segv);
  sigaction(SIGBUS, &ours, &bus);
  int fault = sigsetjmp(out_of_kernel, 1);
  if (!fault)
    ((native_kernel)(uintptr_t)one->kernel->entry)((const uint8_t *)one->slot, grid, NULL, 0,
                                                   programs, arena);
  sigaction(SIGSEGV, &segv, NULL);
  sigaction(SIGBUS, &bus, NULL);
  free(arena);
  return fault ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static void perform(const struct launch *one) {
  state.last = *one;
  state.launches++;
  /* On a GPU a fault shows at the next call that waits, not at the launch. */
  if (!state.pending) state.pending = run_kernel(one);
}

static struct node *captured(void) {
  struct graph *graph = state.capture;
  if (graph->count == graph->room) {
    graph->room = graph->room ? 2 * graph->room : 16;
    graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
  }
  struct node *node = &graph->nodes[graph->count++];
  memset(node, 0, sizeof *node);
  return node;
}

EXPORT CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                                         void **extra) {
  ENTER(2);
  struct launch one = {.kernel = (struct image *)f, .cluster = 1};
  if (extra || !config->hStream) return CUDA_ERROR_INVALID_VALUE;
  one.grid[0] = config->gridDimX, one.grid[1] = config->gridDimY, one.grid[2] = config->gridDimZ;
  one.block[0] = config->blockDimX, one.block[1] = config->blockDimY;
  one.block[2] = config->blockDimZ, one.shared = config->sharedMemBytes;
  if (!one.grid[0] || !one.grid[1] || !one.grid[2] || !one.block[0] || one.block[0] > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    one.attributes[one.attribute_count++] = (int)config->attrs[i].id;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      one.cluster = config->attrs[i].value.clusterDim.x;
      if (config->attrs[i].value.clusterDim.y != 1 || config->attrs[i].value.clusterDim.z != 1)
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE &&
        config->attrs[i].value.clusterSchedulingPolicyPreference !=
            CU_CLUSTER_SCHEDULING_POLICY_SPREAD)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!one.cluster || one.grid[0] % one.cluster) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < one.kernel->params; i++) {
    int64_t value = 0;
    memcpy(&value, params[i], one.kernel->size[i] & 0x7F);
    /* The native kernel wants integers sign-extended to their slot. */
    int unused = 64 - 8 * (one.kernel->size[i] & 0x7F);
    if (one.kernel->size[i] & 0x80) value = (int64_t)((uint64_t)value << unused) >> unused;
    one.slot[i] = (uint64_t)value;
  }
  for (int i = 0; one.kernel->entry && i < 2; i++) memcpy(&one.scratch[i], params[one.kernel->params + i], 8);
  if (!state.capture) {
    perform(&one);
    return CUDA_SUCCESS;
  }
  captured()->launch = one;
  return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ streams, events, graphs */

EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
  ENTER(2);
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  state.streams++;
  *stream = (CUstream)malloc(1);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream) {
  ENTER(2);
  free(stream);
  state.streams--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  ENTER(2);
  (void)stream;
  return settle();
}
EXPORT CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  ENTER(2);
  (void)stream;
  if (state.capture || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    return CUDA_ERROR_INVALID_VALUE;
  state.capture = calloc(1, sizeof *state.capture);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  struct graph *found = state.capture;
  state.capture = NULL;
  ENTER(2);
  (void)stream;
  if (!found) return CUDA_ERROR_ILLEGAL_STATE;
  state.graphs++;
  *graph = (CUgraph)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                                    unsigned long long flags) {
  ENTER(2);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  struct graph *from = (struct graph *)graph, *copy = calloc(1, sizeof *copy);
  copy->count = copy->room = from->count;
  copy->nodes = malloc(from->count * sizeof *copy->nodes);
  memcpy(copy->nodes, from->nodes, from->count * sizeof *copy->nodes);
  state.graphs++;
  *made = (CUgraphExec)copy;
  return CUDA_SUCCESS;
}
static void free_graph(struct graph *graph) {
  free(graph->nodes);
  free(graph);
  state.graphs--;
}
EXPORT CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ENTER(2);
  free_graph((struct graph *)graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec graph) {
  ENTER(2);
  free_graph((struct graph *)graph);
  return CUDA_SUCCESS;
}
static void record(CUevent event) {
  clock_gettime(CLOCK_MONOTONIC, &((struct event *)event)->at);
  ((struct event *)event)->recorded = 1;
}
EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER(2);
  (void)stream;
  struct graph *nodes = (struct graph *)graph;
  for (int i = 0; i < nodes->count; i++) {
    if (nodes->nodes[i].is_event)
      record(nodes->nodes[i].event);
    else
      perform(&nodes->nodes[i].launch);
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
  ENTER(2);
  if (flags != CU_EVENT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  state.events++;
  *event = (CUevent)calloc(1, sizeof(struct event));
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventDestroy_v2(CUevent event) {
  ENTER(2);
  free(event);
  state.events--;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  ENTER(2);
  (void)stream;
  if (state.capture) {
    if (flags != CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    struct node *node = captured();
    node->is_event = 1;
    node->event = event;
    return CUDA_SUCCESS;
  }
  if (flags != CU_EVENT_RECORD_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  record(event);
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
EXPORT CUresult CUDAAPI cuEventElapsedTime(float *elapsed_ms, CUevent begin, CUevent end) {
  ENTER(2);
  if (!((struct event *)begin)->recorded || !((struct event *)end)->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  const struct timespec *a = &((struct event *)begin)->at, *b = &((struct event *)end)->at;
  *elapsed_ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
  return CUDA_SUCCESS;
}
