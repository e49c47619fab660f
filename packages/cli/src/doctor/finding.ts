/** What a check of `static doctor` finds: that something is fine, or how to fix it, in one sentence. */
export interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly detail: string
}

export function ok(check: string, detail: string): Finding {
  return { check, ok: true, detail }
}

export function fix(check: string, detail: string): Finding {
  return { check, ok: false, detail }
}
