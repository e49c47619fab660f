/*
 * The loops of the bench without Python: they call the C functions of the package's own libslim_bindings.so (UniFFI),
 * with a thread for each session. So what Python costs (two thirds of a sender's CPU) is not counted against the peer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { uint64_t capacity, len; uint8_t *data; } Buffer;
typedef struct { int8_t code; Buffer error; } Status;
typedef struct { int32_t len; const uint8_t *data; } Bytes;

static Buffer (*from_bytes)(Bytes, Status *);
static void (*free_buffer)(Buffer, Status *);
static uint64_t (*clone_session)(uint64_t, Status *);
static uint64_t (*publish)(uint64_t, Buffer, Buffer, Buffer, Status *);
static Buffer (*get_message)(uint64_t, Buffer, Status *);
static void (*wait_done)(uint64_t, Status *);
static void (*free_done)(uint64_t, Status *);

#define SIZE 1024
static uint8_t payload[4 + SIZE];
static const uint8_t none[1] = {0};

int open_library(const char *path) {
  void *lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!lib) return 1;
  from_bytes = dlsym(lib, "ffi_slim_bindings_rustbuffer_from_bytes");
  free_buffer = dlsym(lib, "ffi_slim_bindings_rustbuffer_free");
  clone_session = dlsym(lib, "uniffi_slim_bindings_fn_clone_session");
  publish = dlsym(lib, "uniffi_slim_bindings_fn_method_session_publish");
  get_message = dlsym(lib, "uniffi_slim_bindings_fn_method_session_get_message");
  wait_done = dlsym(lib, "uniffi_slim_bindings_fn_method_completionhandle_wait");
  free_done = dlsym(lib, "uniffi_slim_bindings_fn_free_completionhandle");
  memset(payload, 7, sizeof payload);
  payload[0] = 0, payload[1] = 0, payload[2] = SIZE >> 8, payload[3] = SIZE & 255;
  return !(from_bytes && free_buffer && clone_session && publish && get_message && wait_done && free_done);
}

static void check(Status *status, const char *what) {
  if (status->code == 0) return;
  fprintf(stderr, "loops: %s failed with %d: %.*s\n", what, status->code, (int)status->error.len, (char *)status->error.data);
  _Exit(3);
}

static Buffer buffer(const uint8_t *data, int32_t len) {
  Status status = {0};
  return from_bytes((Bytes){len, data}, &status);
}

static uint64_t send_one(uint64_t session) {
  Status status = {0};
  uint64_t self = clone_session(session, &status);
  uint64_t done = publish(self, buffer(payload, sizeof payload), buffer(none, 1), buffer(none, 1), &status);
  check(&status, "publish");
  return done;
}

static void receive_one(uint64_t session) {
  Status status = {0};
  uint64_t self = clone_session(session, &status);
  Buffer message = get_message(self, buffer(none, 1), &status);
  check(&status, "get_message");
  free_buffer(message, &status);
}

/* At most `window` are under way: the oldest is waited for (acknowledged by all) before the next is sent. */
void send_many(uint64_t session, int count, int window) {
  uint64_t *under_way = calloc(window, sizeof *under_way);
  for (int at = 0; at < count + window; at++) {
    uint64_t *slot = &under_way[at % window];
    if (at >= window && *slot) {
      Status status = {0};
      wait_done(*slot, &status);
      check(&status, "wait");
      *slot = 0;
    }
    if (at < count) *slot = send_one(session);
  }
  free(under_way);
}

struct job { uint64_t session; int count; };

static void *receive(void *argument) {
  struct job *job = argument;
  for (int at = 0; at < job->count; at++) receive_one(job->session);
  return 0;
}

void receive_many(const uint64_t *sessions, int many, int count) {
  pthread_t threads[256];
  struct job jobs[256];
  for (int at = 0; at < many; at++) {
    jobs[at] = (struct job){sessions[at], count};
    pthread_create(&threads[at], 0, receive, &jobs[at]);
  }
  for (int at = 0; at < many; at++) pthread_join(threads[at], 0);
}

static void *echo(void *argument) {
  uint64_t session = (uint64_t)(uintptr_t)argument;
  for (;;) {
    Status status = {0};
    receive_one(session);
    free_done(send_one(session), &status);
  }
  return 0;
}

void start_echo(uint64_t session) {
  pthread_t thread;
  pthread_create(&thread, 0, echo, (void *)(uintptr_t)session);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

void round_trips(uint64_t session, int count, double *times) {
  for (int at = 0; at < count; at++) {
    double start = now();
    Status status = {0};
    uint64_t done = send_one(session);
    receive_one(session);
    times[at] = now() - start;
    free_done(done, &status);
  }
}
