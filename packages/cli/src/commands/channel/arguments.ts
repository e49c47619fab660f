/** Arguments and flags that several channel commands take, checked before anything is done. */
import { Argument, InvalidArgumentError } from 'commander'
import { ERRORS, isChannelName } from '@static/protocol'

const MAX_SECONDS = 2_000_000

/** The name of a channel. */
export function channelArgument(): Argument {
  return new Argument('<channel>', 'its name: org/namespace/service').argParser((text) => {
    if (isChannelName(text)) return text
    throw new InvalidArgumentError(ERRORS.channel_error.help)
  })
}

/** A time from a flag. */
export function seconds(text: string): number {
  const value = Number(text)
  if (!/^\d+(\.\d+)?$/.test(text) || value <= 0 || value > MAX_SECONDS) {
    throw new InvalidArgumentError('A number of seconds above 0.')
  }
  return value
}

/** A count from a flag. */
export function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('A whole number from 1 on.')
  return Number(text)
}
