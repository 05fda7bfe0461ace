/** Implements `countersign gate`: the gate as an MCP server over standard input and output. */
import { GateConfig } from '../../contracts/schemas/gateway.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { Name } from '../../contracts/schemas/json.ts';
import { Dispatch, Initiator } from '../../contracts/schemas/run-spec.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { defined } from '../../contracts/defined.ts';
import { visible } from '../../domain/text/escape.ts';
import { packageVersion } from '../../workers/setup.ts';
import * as option from '../session/options.ts';
import { artifactReader } from '../session/session.ts';
import { verb } from '../session/verb.ts';

/** Seconds for which a call is held; programs that start servers wait as long as those that connect to them. */
const HOLD_SECONDS = 50;

export const GATE = verb({
  name: 'gate',
  summary: 'offer the tools of catalogs to an agent, by MCP over standard input and output',
  description:
    'Offer the tools of catalogs as an MCP server over standard input and output: an agent that starts it calls them through the gate',
  options: {
    as: option.actor('in whose name the agent calls'),
    group: option.several('<name>', 'a group of theirs'),
    tenant: option.text('<id>', 'tenant (default: `default`)'),
    server: option.text('<name>', 'offer this server alone, under its own names (default: all servers with a catalog)'),
    client: option.text(
      '<name>',
      'name of the agent: equal calls of one agent are one while they wait (default: stdio)',
    ),
    dispatch: option.choice(
      Dispatch.options,
      '<when>',
      'when an approved call leaves: on-approval, or on-return: only while the agent is there (default: on-approval)',
    ),
    pages: option.text('<url>', 'address of the gateway, for links to what waits'),
    hold: option.preset(HOLD_SECONDS, option.seconds('longest time for which a call is held for its outcome')),
  },
  examples: ['gate --as ann', 'gate --as ann --group support --server tickets --pages https://approvals.example.com'],
  note: 'Over HTTP, for agents that connect by themselves: gateway.gate in countersign.yaml (docs/guide/gate.md).',
  run: async ({ options, terminal, session }) => {
    const { as: id, group = [], tenant, client = 'stdio', hold, dispatch, pages } = options;
    const initiator = parseAs(Initiator, { id, groups: [...group], ...defined({ tenant }) }, 'USAGE', 'caller');
    const server = parseAs(Name.optional(), options.server, 'USAGE', 'name of the server');
    const gate = parseAs(
      GateConfig,
      { holdSeconds: Math.ceil(hold), ...defined({ dispatch }) },
      'USAGE',
      'time of --hold',
    );
    const origin = originOf(pages);
    // These modules take time to load, so other commands do without them.
    const { Catalogs } = await import('../../gateway/catalog/catalogs.ts');
    const { createGate } = await import('../../gateway/gate/gate.ts');
    const { serveGateOnStdio } = await import('../../gateway/gate/stdio.ts');
    const { livePolicy } = await import('../session/gateway.ts');
    const { WITHDRAWN } = await import('../../gateway/gate/tasks.ts');
    await session(async ({ countersign, settings }) => {
      const { artifacts } = settings;
      const onTrouble = (code: string, message: string): void => terminal.err(`${code}: ${visible(message)}\n`);
      const live = await livePolicy(settings, { warn: (message) => onTrouble('POLICY', message) }, terminal.env);
      const said = {
        ...settings,
        administrators: [],
        get policy() {
          return live?.current ?? settings.policy;
        },
      };
      const parts = createGate({
        gate,
        countersign,
        catalogs: new Catalogs(countersign, said),
        artifacts: artifactReader(artifacts),
        // One program asks: it bounds itself.
        waiters: { hold: async (_person, wait) => await wait() },
        version: packageVersion(),
        start: async (_caller, { called, ...how }) =>
          (await countersign.call({ ...how, call: { ...called, initiator } })).started,
        stop: async (_caller, runId) => void (await countersign.run(runId).stop({ by: id, reason: WITHDRAWN })),
        pages: () => origin,
        onTrouble,
      });
      const asker = { ...initiator, may: new Set(['start'] as const), seesAll: false, until: Number.POSITIVE_INFINITY };
      await serveGateOnStdio(parts, { caller: { asker, client: `stdio/${client}` }, server }, terminal.interrupted());
      live?.stop();
      await parts.settled();
    });
    return undefined;
  },
});

function originOf(pages: string | undefined): string | undefined {
  if (pages === undefined) return undefined;
  if (URL.canParse(pages) && /^https?:$/.test(new URL(pages).protocol)) return new URL(pages).origin;
  throw new CountersignError('USAGE', `--pages must be the URL of a gateway, not ${pages}.`, { path: 'pages' });
}
