/**
 * Gives the pages what they show, from the gateway's own parts: the same rules and the same cached answers as the API,
 * so that no page and no viewer asks a run by itself.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { Authorization, Decision, Provision, Resolution } from '../../contracts/schemas/request.ts';
import type { RunRow } from '../../contracts/schemas/http-api.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { seesRun } from '../../domain/request/onlooker.ts';
import { mayTell } from '../inbox/answering.ts';
import { shareOf } from '../inbox/records.ts';
import type { RouteParts } from '../routes/parts.ts';
import type { Inbox, Listed, PageSource, RunFacts, Sent, Viewer } from './kit/port.ts';

/** Requests on one page of the inbox. */
const MOST_LISTED = 50;
/** Requests of which the number is told. */
const MOST_COUNTED = 200;
const MOST_RUNS = 100;

/**
 * One function, because it is one port.
 * @param temporalUi address of Temporal UI with its namespace, for links to runs
 */
export function pageSource(parts: RouteParts, temporalUi?: string): PageSource {
  const { reading, opened, answering, projection } = parts;

  const listed = async (
    viewer: Viewer,
    mine: boolean,
  ): Promise<{ all: readonly Listed[]; total: number; asOf: string }> => {
    const query = { most: MOST_COUNTED, ...(mine ? { mine: 'decide' as const } : {}) };
    const { requests: rows, asOf } = await reading.requests(query, viewer);
    const found = await Promise.all(
      rows.slice(0, MOST_LISTED).map(async ({ run, callId, digest }) => {
        // Held already: the list was made of it.
        const request = (await opened.requests(run)).find((each) => each.callId === callId && each.digest === digest);
        const row = projection.run(run)?.row;
        return request === undefined || row === undefined ? [] : [{ request, run: factsOf(row) }];
      }),
    );
    return { all: found.flat(), total: rows.length, asOf };
  };

  return {
    inbox: async (viewer, everyone): Promise<Inbox> => {
      const own = await listed(viewer, true);
      const { all, total, asOf } = everyone ? await listed(viewer, false) : own;
      const more = total - all.length;
      return { requests: all, mine: own.total, asOf, ...(more > 0 ? { more } : {}) };
    },
    runs: async (viewer) => reading.runs({ most: MOST_RUNS }, viewer).runs.map(factsOf),
    run: async (viewer, runId) => {
      const seen = await reading.seen(runId, viewer);
      const { run } = seen;
      const [{ state, ledger, messages }, requests] = await Promise.all([
        opened.story(runId),
        reading.requestsOf(runId, viewer),
      ]);
      const seenCalls = new Set(requests.map(({ request }) => request.callId));
      return {
        facts: factsOf(run),
        state,
        requests: requests.map(({ request }) => request),
        ledger,
        messages: seesRun(run, viewer) ? messages : shareOf(messages, seenCalls),
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

function factsOf({ runId, initiator, startedAt, status }: RunRow): RunFacts {
  return { runId, initiator, startedAt, status };
}

/** Body without its sender and its place, which `Answering` adds. */
async function send({ answering }: RouteParts, viewer: Viewer, { runId, update, message }: Sent): Promise<void> {
  const { callId, digest, runId: execution, decisionId, ...rest } = message;
  const text = (value: unknown, path: string): string => {
    if (typeof value === 'string') return value;
    throw new CountersignError('DECISION_INVALID', `${path} is missing; load the page again.`, { path });
  };
  const body = {
    ...rest,
    digest: text(digest, 'digest'),
    runId: text(execution, 'runId'),
    decisionId: text(decisionId, 'decisionId'),
  };
  await answering.answer(viewer, { run: runId, callId: text(callId, 'callId') }, body, async (run, whole) => {
    switch (update) {
      case 'decide':
        return await run.decide(parseAs(Decision, whole, 'DECISION_INVALID', 'decision'));
      case 'provideInput':
        return await run.provideInput(parseAs(Provision, whole, 'DECISION_INVALID', 'answer'));
      case 'authorize':
        return await run.authorize(parseAs(Authorization, whole, 'DECISION_INVALID', 'authorization'));
      case 'resolveOutcome':
        return await run.resolveOutcome(parseAs(Resolution, whole, 'DECISION_INVALID', 'resolution'));
    }
  });
}
