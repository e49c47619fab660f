/** The result of one check of `static doctor`: ok, or what is wrong and how to fix it. */
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
