/** A workflow that never gives its thread back. */
export async function agentRun(): Promise<never> {
  for (;;);
}
