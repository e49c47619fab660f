/** The QUIC library itself, as a baseline for benchmarks of the relay. */
export { createQuicServer, type QuicStream } from '@currentspace/http3'
