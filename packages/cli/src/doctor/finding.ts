/** What a check of `static doctor` finds: that something is well, or how to mend it, in one sentence. */
export interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly detail: string
}

export function well(check: string, detail: string): Finding {
  return { check, ok: true, detail }
}

export function mend(check: string, detail: string): Finding {
  return { check, ok: false, detail }
}
