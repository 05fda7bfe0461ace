/** A deploy that went wrong: bears the name of a run, and throws on every history. Bundled for a worker of its own. */
export async function agentRun(): Promise<never> {
  // No failure of Temporal's: it fails the workflow task, not the run.
  throw new TypeError('this build is broken');
}
