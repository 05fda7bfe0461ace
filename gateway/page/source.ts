/**
 * Gives the pages what they show, from the gateway's own parts: the same rules and the same cached answers as the API,
 * so that no page and no viewer asks a run by itself.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { Authorization, Decision, Provision, Resolution } from '../../contracts/schemas/request.ts';
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { StartRun } from '../../contracts/schemas/http-api.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { seesRun } from '../../domain/request/onlooker.ts';
import { visible } from '../../domain/text/escape.ts';
import { mayTell } from '../inbox/answering.ts';
import { shareOf } from '../inbox/records.ts';
import type { RouteParts } from '../routes/parts.ts';
import type { CatalogSource, Inbox, Listed, PageSource, Sent, Viewer } from './kit/port.ts';

const MOST_LISTED = 50;
/** Requests of which the number is told. */
const MOST_COUNTED = 200;
const MOST_RUNS = 100;

/**
 * One function, because it is one port.
 * @param config `temporalUi`: its address with the namespace, for links to runs; `agents`: those that people may start
 */
export function pageSource(
  parts: RouteParts,
  { temporalUi, agents }: Pick<GatewayConfig, 'temporalUi' | 'agents'>,
): PageSource {
  const { reading, opened, answering, projection } = parts;

  const listed = async (
    viewer: Viewer,
    mine: boolean,
  ): Promise<{ all: readonly Listed[]; total: number; isMore: boolean; asOf: string }> => {
    const query = { most: MOST_COUNTED, ...(mine ? { mine: 'decide' as const } : {}) };
    const { requests: rows, asOf, next } = await reading.requests(query, viewer);
    const found = await Promise.all(
      rows.slice(0, MOST_LISTED).map(async ({ run, callId, digest }) => {
        // Mostly held: the list was made of it.
        const request = (await opened.requests(run)).find((each) => each.callId === callId && each.digest === digest);
        const row = projection.run(run)?.row;
        return request === undefined || row === undefined ? [] : [{ request, run: row }];
      }),
    );
    return { all: found.flat(), total: rows.length, isMore: next !== undefined, asOf };
  };

  return {
    places: (viewer) =>
      new Set([
        ...(parts.catalogs.sees(viewer) ? (['catalogs'] as const) : []),
        ...(viewer.may.has('start') && Object.keys(agents).length > 0 ? (['start'] as const) : []),
      ]),
    catalogs: catalogSource(parts),
    agents: Object.entries(agents).map(([name, { title, description, spec }]) => ({
      name,
      title,
      ...defined({ description }),
      model: spec.agent.model,
      servers: spec.servers.map((server) => server.name),
    })),
    start: async (viewer, agent, input, key) => {
      const found = Object.hasOwn(agents, agent) ? agents[agent] : undefined;
      if (found === undefined) {
        const message = `There is no agent ${visible(agent)} here; choose one of the page.`;
        throw new CountersignError('SPEC_INVALID', message, { path: 'agent' });
      }
      // Checked like a spec that a backend sends; the initiator is who is signed in.
      const body = parseAs(StartRun, { spec: { ...found.spec, input } }, 'SPEC_INVALID', 'run spec');
      return (await answering.start(viewer, body, key)).runId;
    },
    inbox: async (viewer, everyone): Promise<Inbox> => {
      const own = await listed(viewer, true);
      const { all, total, isMore, asOf } = everyone ? await listed(viewer, false) : own;
      const more = total - all.length;
      return {
        requests: all,
        mine: own.total,
        asOf,
        ...(own.isMore ? { mineIsMore: true } : {}),
        ...(more > 0 ? { more } : {}),
        ...(isMore ? { moreIsMore: true } : {}),
      };
    },
    runs: async (viewer) => reading.runs({ most: MOST_RUNS }, viewer).runs,
    run: async (viewer, runId) => {
      const seen = await reading.seen(runId, viewer);
      const { run } = seen;
      const [{ state, ledger, messages, messagesFrom }, requests] = await Promise.all([
        opened.story(runId),
        reading.requestsOf(runId, viewer),
      ]);
      const seenCalls = new Set(requests.map(({ request }) => request.callId));
      return {
        facts: run,
        state,
        // A run that was terminated had no moment to close its requests: they wait for nobody any more.
        requests: requests.flatMap(({ request }) =>
          run.endedAt !== undefined && request.status === 'open' ? [] : [request],
        ),
        ledger,
        messages: messages.flatMap((message, index) =>
          (seesRun(run, viewer) ? [message] : shareOf([message], seenCalls)).map((share) => ({
            at: messagesFrom + index,
            message: share,
          })),
        ),
        mayTell: mayTell(seen, viewer),
        ...(temporalUi === undefined
          ? {}
          : { temporalUi: `${temporalUi.replace(/\/$/, '')}/workflows/${encodeURIComponent(runId)}` }),
      };
    },
    check: async (viewer, runId) => {
      await reading.seen(runId, viewer);
      return await opened.check(runId);
    },
    tool: async (_viewer, request) => await parts.definitions.of(request),
    send: async (viewer, sent) => await send(parts, viewer, sent),
    say: async (viewer, runId, text, given) =>
      void (await answering.tell(
        viewer,
        runId,
        { messageId: given },
        async (run, messageId) => await run.say({ messageId, text, from: viewer.id }),
      )),
    stop: async (viewer, runId, reason) =>
      void (await answering.tell(viewer, runId, {}, async (run) => await run.stop({ by: viewer.id, reason }))),
    changes: (viewer, listener) => {
      const { end } = parts.news.follow(viewer, undefined, listener);
      return end;
    },
  };
}

/** A refresh lists the tools of a server: mostly a moment, and a page says so where it is longer. */
const REFRESH_MS = 6_000;

function catalogSource({ catalogs, catalogChanges, catalogWatch, countersign }: RouteParts): CatalogSource {
  return {
    servers: catalogs.configured,
    mayConnect: (viewer) => catalogs.rightsOf(viewer).has('connect'),
    list: async (viewer) => await catalogs.list(viewer),
    read: async (viewer, server) => await catalogs.read(viewer, server),
    tool: async (viewer, server, tool) => await catalogs.tool(viewer, server, tool),
    send: async (viewer, server, sent) => {
      const { refresh } = await catalogChanges.send(viewer, server, sent);
      if (refresh === undefined) return;
      await countersign
        .catalog(server, viewer.tenant)
        .settled(refresh, { deadlineMs: REFRESH_MS })
        // It goes on; the page tells.
        .catch(() => undefined);
      catalogs.forget(viewer.tenant, server);
    },
    changes: (viewer, server, listener) =>
      catalogs.sees(viewer) ? catalogWatch.follow(viewer.tenant, server, listener) : () => undefined,
  };
}

async function send(
  { answering }: RouteParts,
  viewer: Viewer,
  { runId, update, message: { callId, ...body } }: Sent,
): ReturnType<PageSource['send']> {
  return await answering.answer(viewer, { run: runId, callId }, body, async (run, whole) => {
    switch (update) {
      case 'decide':
        return (await run.decide(parseAs(Decision, whole, 'DECISION_INVALID', 'decision'))).status;
      case 'provideInput':
        return void (await run.provideInput(parseAs(Provision, whole, 'DECISION_INVALID', 'answer')));
      case 'authorize':
        return void (await run.authorize(parseAs(Authorization, whole, 'DECISION_INVALID', 'authorization')));
      case 'resolveOutcome':
        return void (await run.resolveOutcome(parseAs(Resolution, whole, 'DECISION_INVALID', 'resolution')));
    }
  });
}
