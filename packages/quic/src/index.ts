export {
  connectQuic,
  dialQuic,
  type QuicClientStream,
  type QuicConnection,
  type QuicStreamHandlers,
  type QuicTarget,
  wrongThread,
} from './client.ts'
export { type Shield, withPrivateTemp } from './private-temp.ts'
export { QUIC_FULL, QUIC_SETTINGS } from './settings.ts'
