/** Arguments and flags shared by the channel commands, checked before anything is done. */
import { Argument, InvalidArgumentError } from 'commander'
import { ERRORS, isChannelName } from '@static/protocol'

const MAX_SECONDS = 2_000_000

export function channelArgument(): Argument {
  return new Argument('<channel>', 'channel name: org/namespace/service').argParser((text) => {
    if (isChannelName(text)) return text
    throw new InvalidArgumentError(ERRORS.channel_error.help)
  })
}

/** Parses a number of seconds. */
export function seconds(text: string): number {
  const value = Number(text)
  if (!/^\d+(\.\d+)?$/.test(text) || value <= 0 || value > MAX_SECONDS) {
    throw new InvalidArgumentError(`Expected a number of seconds greater than 0 and at most ${MAX_SECONDS}.`)
  }
  return value
}

/** Parses a whole number from 1. */
export function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new InvalidArgumentError('Expected a whole number of at least 1, with at most 9 digits.')
  return Number(text)
}
