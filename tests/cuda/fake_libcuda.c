/* A CUDA driver that is not there: the functions that kernelsmith calls, on host memory.
 *
 * Compiled against the public header cuda.h, so that a signature that differs from the driver's
 * does not compile. A "cubin" is a struct image below: the address of a native kernel of the CPU
 * device. Work in a stream runs at once; captured work is kept and run when its graph is launched.
 * A native kernel that faults in memory loses the context, as on a GPU.
 *
 * It refuses what the driver's documentation forbids, where a driver may refuse, crash or do
 * nothing: handles that are not (or no longer) alive, ranges that are not one allocation's, work
 * that may not be captured, launches beyond a block's limits. And it is stricter than a driver in
 * one point: a copy to or from the host, or taking memory away, while work is under way that nobody
 * has waited for is an error (NOT_READY) instead of a race. */
#include "fake_state.h"

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
  NEED_DEVICE(ordinal);
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  snprintf(name, length, "Stand-in %d", device);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i + device);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  *bytes = (size_t)1 << 30;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = state.mode; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state.arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state.arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = SHARED_OPT_IN; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = !state.no_guard; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  live(CONTEXT, (uint64_t)&state, 0);
  *context = (CUcontext)&state;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  return die(CONTEXT, (uint64_t)&state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  ENTER(1);
  NEED(!context || find(CONTEXT, (uint64_t)context), CUDA_ERROR_INVALID_CONTEXT);
  state.current = context;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER(2);
  (void)value;
  return limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}
EXPORT CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) { ENTER(2); return CUDA_SUCCESS; }

EXPORT CUresult CUDAAPI cuCtxSynchronize(void) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  arrive();
  state.busy = 0;
  return settle();
}

#include "fake_memory.h"

/* --------------------------------------------------------------------------------- kernels */

EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *data) {
  ENTER(2);
  struct image *copy = calloc(1, sizeof *copy);
  /* A real cubin is taken for a kernel that does nothing: enough to walk the code around it. */
  if (!memcmp(data, "FAKECUBI", 8))
    memcpy(copy, data, offsetof(struct image, shared_most));
  else if (memcmp(data, "\177ELF", 4)) {
    free(copy);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  copy->shared_most = SHARED_PLAIN, copy->any_cluster = 0;
  live(MODULE, (uint64_t)copy, 0);
  *module = (CUmodule)copy;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ENTER(2);
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  NEED(die(MODULE, (uint64_t)module), CUDA_ERROR_INVALID_HANDLE);
  free(module);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ENTER(2);
  NEED_ALIVE(MODULE, module);
  const struct image *image = (struct image *)module;
  if (image->entry && strcmp(image->name, name)) return CUDA_ERROR_NOT_FOUND;
  *function = (CUfunction)module;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction f) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
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
  NEED_ALIVE(MODULE, f);
  struct image *image = (struct image *)f;
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= SHARED_OPT_IN)
    image->shared_most = value;
  else if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
    image->any_cluster = value;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
  return config == CU_FUNC_CACHE_PREFER_SHARED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                                    int threads, size_t shared) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
  (void)shared;
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
  state.busy = 1;
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
  NEED_ALIVE(MODULE, f);
  NEED_ALIVE(STREAM, config->hStream);
  NEED(!extra, CUDA_ERROR_INVALID_VALUE);
  one.grid[0] = config->gridDimX, one.grid[1] = config->gridDimY, one.grid[2] = config->gridDimZ;
  one.block[0] = config->blockDimX, one.block[1] = config->blockDimY;
  one.block[2] = config->blockDimZ, one.shared = config->sharedMemBytes;
  NEED(one.grid[0] && one.grid[0] < 1u << 31, CUDA_ERROR_INVALID_VALUE);
  NEED(one.grid[1] && one.grid[1] < 1 << 16, CUDA_ERROR_INVALID_VALUE);
  NEED(one.grid[2] && one.grid[2] < 1 << 16, CUDA_ERROR_INVALID_VALUE);
  NEED(one.block[0] && one.block[0] <= 1024, CUDA_ERROR_INVALID_VALUE);
  NEED(one.block[1] == 1 && one.block[2] == 1, CUDA_ERROR_INVALID_VALUE);
  NEED((int)one.shared <= one.kernel->shared_most, CUDA_ERROR_INVALID_VALUE);
  NEED(one.block[0] * one.kernel->registers <= 65536, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
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
  NEED(one.cluster && one.grid[0] % one.cluster == 0, CUDA_ERROR_INVALID_VALUE);
  NEED(one.cluster <= (one.kernel->any_cluster ? 16 : 8), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  for (uint32_t i = 0; i < one.kernel->params; i++) {
    int64_t value = 0;
    memcpy(&value, params[i], one.kernel->size[i] & 0x7F);
    /* The native kernel wants integers sign-extended to their slot. */
    int unused = 64 - 8 * (one.kernel->size[i] & 0x7F);
    if (one.kernel->size[i] & 0x80) value = (int64_t)((uint64_t)value << unused) >> unused;
    one.slot[i] = (uint64_t)value;
  }
  for (int i = 0; one.kernel->entry && i < 2; i++) memcpy(&one.scratch[i], params[one.kernel->params + i], 8);
  if (state.capture && config->hStream == state.capturing)
    captured()->launch = one;
  else
    perform(&one);
  return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ streams, events, graphs */

EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
  ENTER(2);
  NEED(flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
  *stream = (CUstream)malloc(1);
  live(STREAM, (uint64_t)*stream, 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream) {
  ENTER(2);
  NEED(die(STREAM, (uint64_t)stream), CUDA_ERROR_INVALID_HANDLE);
  free(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NOT_IN_A_CAPTURE();
  state.busy = 0;
  return settle();
}
EXPORT CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NEED(!state.capture && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_INVALID_VALUE);
  state.capturing = stream;
  state.spoilt = 0;
  state.capture = calloc(1, sizeof *state.capture);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  struct graph *found = state.capture;
  state.capture = NULL;
  ENTER(2);
  NEED(found && stream == state.capturing, CUDA_ERROR_ILLEGAL_STATE);
  *graph = NULL;
  NEED(!state.spoilt, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  live(GRAPH, (uint64_t)found, 0);
  *graph = (CUgraph)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                                    unsigned long long flags) {
  ENTER(2);
  NEED_ALIVE(GRAPH, graph);
  NEED(!flags, CUDA_ERROR_INVALID_VALUE);
  struct graph *from = (struct graph *)graph, *copy = calloc(1, sizeof *copy);
  copy->count = copy->room = from->count;
  copy->nodes = malloc(from->count * sizeof *copy->nodes);
  memcpy(copy->nodes, from->nodes, from->count * sizeof *copy->nodes);
  live(EXEC, (uint64_t)copy, 0);
  *made = (CUgraphExec)copy;
  return CUDA_SUCCESS;
}
static CUresult free_graph(enum kind kind, void *graph) {
  NEED(die(kind, (uint64_t)graph), CUDA_ERROR_INVALID_HANDLE);
  free(((struct graph *)graph)->nodes);
  free(graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ENTER(2);
  return free_graph(GRAPH, graph);
}
EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec graph) {
  ENTER(2);
  return free_graph(EXEC, graph);
}
/* The clock of the GPU goes while it works, whatever else the machine does. */
static void record(CUevent event) {
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &((struct event *)event)->at);
  ((struct event *)event)->recorded = 1;
}
EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER(2);
  NEED_ALIVE(EXEC, graph);
  NEED_ALIVE(STREAM, stream);
  struct graph *nodes = (struct graph *)graph;
  for (int i = 0; i < nodes->count; i++) {
    if (nodes->nodes[i].is_event)
      NEED_ALIVE(EVENT, nodes->nodes[i].event);
    else
      NEED_ALIVE(MODULE, nodes->nodes[i].launch.kernel);
    if (nodes->nodes[i].is_event)
      record(nodes->nodes[i].event);
    else
      perform(&nodes->nodes[i].launch);
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
  ENTER(2);
  NEED(flags == CU_EVENT_DEFAULT, CUDA_ERROR_INVALID_VALUE);
  *event = (CUevent)calloc(1, sizeof(struct event));
  live(EVENT, (uint64_t)*event, 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventDestroy_v2(CUevent event) {
  ENTER(2);
  NEED(die(EVENT, (uint64_t)event), CUDA_ERROR_INVALID_HANDLE);
  free(event);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  ENTER(2);
  NEED_ALIVE(EVENT, event);
  NEED_ALIVE(STREAM, stream);
  if (state.capture && stream == state.capturing) {
    NEED(flags == CU_EVENT_RECORD_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    struct node *node = captured();
    node->is_event = 1;
    node->event = event;
    return CUDA_SUCCESS;
  }
  NEED(flags == CU_EVENT_RECORD_DEFAULT, CUDA_ERROR_INVALID_VALUE);
  record(event);
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
EXPORT CUresult CUDAAPI cuEventElapsedTime(float *elapsed_ms, CUevent begin, CUevent end) {
  ENTER(2);
  NEED_ALIVE(EVENT, begin);
  NEED_ALIVE(EVENT, end);
  NEED(((struct event *)begin)->recorded && ((struct event *)end)->recorded,
       CUDA_ERROR_INVALID_HANDLE);
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  const struct timespec *a = &((struct event *)begin)->at, *b = &((struct event *)end)->at;
  *elapsed_ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
  return CUDA_SUCCESS;
}
