/* Memory of the stand-in for a driver: plain, and pages mapped into reserved addresses. Part of
 * fake_libcuda.c. */
#pragma once
#include "fake_state.h"

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  void *found = NULL;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > (size_t)1 << 30 || posix_memalign(&found, 256, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(found, 0xA5, bytes);
  live(PLAIN, (uint64_t)found, bytes);
  *address = (CUdeviceptr)(uintptr_t)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  arrive();
  NEED(die(PLAIN, address), CUDA_ERROR_INVALID_VALUE);
  free((void *)(uintptr_t)address);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  NEED(touchable(to, bytes), CUDA_ERROR_INVALID_VALUE);
  arrive();
  state.under_way.to = to;
  state.under_way.bytes = bytes;
  state.under_way.data = malloc(bytes);
  memcpy(state.under_way.data, from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  NEED(touchable(from, bytes), CUDA_ERROR_INVALID_VALUE);
  arrive();
  if (settle()) return state.lost;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                             CUstream stream) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NEED(touchable(to, bytes) && touchable(from, bytes), CUDA_ERROR_INVALID_VALUE);
  state.busy = 1;
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                        CUstream stream) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NEED(touchable(to, bytes), CUDA_ERROR_INVALID_VALUE);
  state.busy = 1;
  memset((void *)(uintptr_t)to, value, bytes);
  return CUDA_SUCCESS;
}
static int pages_of_a_device(const CUmemAllocationProp *prop) {
  return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && !prop->requestedHandleTypes &&
         !prop->win32HandleMetaData && !prop->allocFlags.compressionType &&
         !prop->allocFlags.usage && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         prop->location.id >= 0 && prop->location.id < state.devices;
}
EXPORT CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                                      CUmemAllocationGranularity_flags option) {
  ENTER(2);
  NEED(pages_of_a_device(prop), CUDA_ERROR_INVALID_VALUE);
  NEED(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM, CUDA_ERROR_INVALID_VALUE);
  *bytes = PAGE;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                            CUdeviceptr wish, unsigned long long flags) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(bytes && bytes % PAGE == 0 && !alignment && !wish && !flags, CUDA_ERROR_INVALID_VALUE);
  void *found = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  NEED(found != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  live(RESERVED, (uint64_t)found, bytes);
  *address = (CUdeviceptr)(uintptr_t)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER(2);
  struct thing *found = find(RESERVED, address);
  NEED(found && found->bytes == bytes && !around(MAPPED, address, bytes, 0),
       CUDA_ERROR_INVALID_VALUE);
  die(RESERVED, address);
  munmap((void *)(uintptr_t)address, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                    const CUmemAllocationProp *prop, unsigned long long flags) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(bytes && bytes % PAGE == 0 && !flags && pages_of_a_device(prop), CUDA_ERROR_INVALID_VALUE);
  *handle = ++state.pages_made;
  live(PAGES, *handle, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(2);
  return die(PAGES, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  ENTER(2);
  struct thing *pages = find(PAGES, handle);
  NEED(pages && pages->bytes == bytes && !offset && !flags, CUDA_ERROR_INVALID_VALUE);
  NEED(around(RESERVED, address, bytes, 1) && !around(MAPPED, address, bytes, 0),
       CUDA_ERROR_INVALID_VALUE);
  live(MAPPED, address, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER(2);
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  arrive();
  struct thing *found = find(MAPPED, address);
  NEED(found && found->bytes == bytes, CUDA_ERROR_INVALID_VALUE);
  die(MAPPED, address);
  return mprotect((void *)(uintptr_t)address, bytes, PROT_NONE) ? CUDA_ERROR_INVALID_VALUE : 0;
}
EXPORT CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes,
                                       const CUmemAccessDesc *desc, size_t count_of) {
  ENTER(2);
  struct thing *found = find(MAPPED, address);
  NEED(found && found->bytes == bytes && count_of == 1, CUDA_ERROR_INVALID_VALUE);
  NEED(desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
           desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc->location.id >= 0 &&
           desc->location.id < state.devices,
       CUDA_ERROR_INVALID_VALUE);
  found->open = 1;
  void *place = (void *)(uintptr_t)address;
  return mprotect(place, bytes, PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
