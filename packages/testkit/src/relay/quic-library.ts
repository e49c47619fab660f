/** The QUIC library itself, for what a bench compares the relay with. */
export { createQuicServer, type QuicStream } from '@currentspace/http3'
