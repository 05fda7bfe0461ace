/** A run's first commands: validate the spec, list the tools. */
import type { Discovery, ServerBinding } from '../contracts/schemas/tool.ts';
import { startedFact } from '../domain/facts.ts';
import { remembering } from '../domain/repeats.ts';
import { comparing } from '../domain/talk.ts';
import { discoveryActivities, runActivities } from './activity-stubs.ts';
import type { LiveRun } from './live-run.ts';

export async function prepare(live: LiveRun): Promise<void> {
  const { opening, ...prepared } = await runActivities('check the spec').prepareRun(live.spec);
  live.prepared = prepared;
  if (prepared.repeats === 'answered') live.run = remembering(live.run);
  if (prepared.messageIds === 'compared') live.run = comparing(live.run);
  if (prepared.price !== undefined) live.run = { ...live.run, spent: 0 };
  if (prepared.trust !== undefined) live.believe(prepared.trust, Date.now());
  live.commit({ run: live.run, facts: [startedFact({ ...prepared, opening }, live.spec.agent)] });
  for (const message of opening) live.say(message);
  const found = await Promise.all(prepared.servers.map((server) => discover(live, server)));
  live.toolset = found.map(({ tools, server, grantExpiresAt }, index) => {
    const allowedTools = prepared.servers[index]?.allowedTools;
    return {
      server,
      tools,
      ...(allowedTools === undefined ? {} : { allowedTools }),
      ...(grantExpiresAt === undefined ? {} : { grantExpiresAt }),
    };
  });
  live.commit({
    run: live.run,
    facts: found.map(({ server, tools, count, refused }) => ({
      kind: 'tools.discovered',
      server,
      count,
      toolsHash: tools.sha256,
      refused: refused.map(({ name, reason }) => `${name}: ${reason}`),
    })),
  });
}

async function discover(live: LiveRun, server: ServerBinding): Promise<Discovery> {
  const grant = live.spec.grants?.find((entry) => entry.server === server.name);
  return await discoveryActivities(server, live.prepared.priority).discoverTools({
    run: live.identity,
    server,
    ...(grant === undefined ? {} : { grant }),
    ...(live.prepared.signedSpec === undefined ? {} : { signedSpec: live.prepared.signedSpec }),
  });
}
