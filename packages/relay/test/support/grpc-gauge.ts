/** A number that tests wait for, instead of sleeping. */
export class Gauge {
  value = 0
  #waiting: { readonly until: (value: number) => boolean; readonly resolve: () => void }[] = []

  add(step: number): void {
    this.value += step
    const due = this.#waiting.filter(({ until }) => until(this.value))
    this.#waiting = this.#waiting.filter((one) => !due.includes(one))
    for (const { resolve } of due) resolve()
  }

  /** Resolves as soon as the number is at least so much. */
  async reaches(least: number): Promise<void> {
    await this.is((value) => value >= least)
  }

  /** Resolves as soon as the number is right. */
  async is(until: (value: number) => boolean): Promise<void> {
    if (until(this.value)) return
    await new Promise<void>((resolve) => this.#waiting.push({ until, resolve }))
  }
}
