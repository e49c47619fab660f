export { A2A_BINDING, type A2AInterface, a2aInterface } from '@static/protocol'
export { ChannelPushNotifications, pushNotifications, type PushOptions } from './push.ts'
export { type A2ACaller, serveA2A, type ServeA2AOptions, STATE_REDELIVERED_KEY, STATE_REQUEST_ID_KEY } from './serve.ts'
export { a2aTransport, type A2ATransportOptions } from './transport.ts'
