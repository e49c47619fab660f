/** The result of one check of `static doctor`: ok, the problem and its fix, or why it was not checked. */
export interface Finding {
  readonly check: string
  /** Null if it was not checked. */
  readonly ok: boolean | null
  readonly detail: string
}

export function ok(check: string, detail: string): Finding {
  return { check, ok: true, detail }
}

export function fix(check: string, detail: string): Finding {
  return { check, ok: false, detail }
}

export function skipped(check: string, detail: string): Finding {
  return { check, ok: null, detail }
}
