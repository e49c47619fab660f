/** Identifiers in the agent's database, and time. */

/** Milliseconds since the Unix epoch. */
export type Time = number
/** 32 hexadecimal digits. */
export type ChannelId = string
/** SHA-256 of an agent's public key, 64 hexadecimal digits. */
export type AgentId = string
