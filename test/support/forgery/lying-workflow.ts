/** A run that is none of ours: it answers queries as whoever has started it says. It is bundled for a worker of its own. */
import { condition, defineQuery, setHandler } from '@temporalio/workflow';

async function lies(answers: Readonly<Record<string, unknown>>): Promise<void> {
  for (const [name, answer] of Object.entries(answers)) setHandler(defineQuery<unknown>(name), () => answer);
  await condition(() => false);
}

export { lies as agentRun, lies as toolCatalog };
