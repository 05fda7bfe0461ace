/**
 * Makes the MCP server that answers one client, over whichever transport: both eras of the protocol, without sessions.
 *
 * 1. A wrong request, such as one for an unknown tool, gets an error of the protocol. The outcome of a call is a
 *    result, which a model reads.
 */
import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type Tool,
} from '@modelcontextprotocol/server';
import { CountersignError } from '../../contracts/errors.ts';
import { JsonObject } from '../../contracts/schemas/json.ts';
import { nearNames } from '../../domain/text/match.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nameOf } from '../http/server.ts';
import type { Called, Caller, Exchange, GateCalls, Told } from './calls.ts';
import { listedTool, type Offer, type Offers } from './offers.ts';
import { REFERENCE_META, RESULT_TOOL } from './replies.ts';
import {
  type Era,
  extensionBegun,
  invalid,
  legacyBegun,
  notBegun,
  serveTasks,
  takesTasks,
  TASK_CAPABILITIES,
} from './task-methods.ts';
import type { GateTasks } from './tasks.ts';

export interface McpParts {
  readonly offers: Pick<Offers, 'of'>;
  readonly calls: Pick<GateCalls, 'call' | 'make' | 'findMatching' | 'result' | 'find' | 'untilEnded'>;
  readonly tasks: GateTasks;
  readonly version: string;
  readonly onTrouble: (code: string, message: string) => void;
}

export interface Session {
  readonly caller: Caller;
  /** Aborted when the client has gone, or the gateway stops. */
  readonly gone: AbortSignal;
  /** Aborted when the client has gone. */
  readonly left: AbortSignal;
  /** Resolves once the answer to a request has left, to false if the client has gone without it. */
  deliveryOf(requestId: string | number): Promise<boolean>;
}

const INSTRUCTIONS = `Calls of these tools pass a gate: some wait until a person has approved them. The result of a call that waits says whether its tool may have run. Make exactly the same call again later, or call ${RESULT_TOOL} with its reference: neither runs anything twice.`;

const OWN_TOOL: Tool = {
  name: RESULT_TOOL,
  title: 'Result of a call that waited',
  description:
    'Tells what became of an earlier call that was waiting for a person. It runs nothing. Give the reference that the waiting call returned.',
  inputSchema: {
    type: 'object',
    properties: { reference: { type: 'string', description: 'The reference of the call, such as gate-…' } },
    required: ['reference'],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

export function createGateServer(parts: McpParts, session: Session, era: Era): Server {
  const { offers, calls, tasks, version } = parts;
  const inWords = async <T>(act: () => Promise<T>): Promise<T> => await toldInWords(act, parts);
  const { caller } = session;
  const server = new Server(
    { name: 'countersign', title: 'Countersign', version },
    { capabilities: { tools: {}, ...TASK_CAPABILITIES[era] }, instructions: INSTRUCTIONS },
  );
  // The name of our own tool is taken: no server answers in its place.
  const offered = async (): Promise<readonly Offer[]> =>
    (await offers.of(caller.asker.tenant, caller.server)).filter(({ name }) => name !== RESULT_TOOL);
  server.setRequestHandler('tools/list', async () => {
    const found = await inWords(offered);
    return { tools: [...found.map(listedTool), OWN_TOOL] };
  });
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const { name, arguments: given = {}, task } = params;
    const args = JsonObject.safeParse(given);
    if (!args.success) throw invalid('arguments must be a JSON object. Nothing was run.');
    const asking: Asking = { era, context, caller, exchange: exchangeOf(context, session) };
    const wantsTask = era === 'legacy' && task !== undefined;
    // Outcomes are told whatever becomes of catalogs.
    if (name === RESULT_TOOL) {
      if (wantsTask) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `${RESULT_TOOL} cannot be a task.`);
      const reference = askedReference(args.data);
      return await inWords(
        async () => await asTaken(parts, asking, await calls.result(caller, reference, asking.exchange)),
      );
    }
    const found = await inWords(offered);
    const offer = found.find((each) => each.name === name);
    if (offer === undefined) throw unknownTool(name, found);
    const asked: Asked = { offer, args: args.data, reference: referenceIn(params._meta) };
    return await inWords(
      async () => await (wantsTask ? begunAsTask(parts, asking, asked) : answered(parts, asking, asked)),
    );
  });
  serveTasks(server, era, { caller, tasks, calls, inWords, exchangeOf: (context) => exchangeOf(context, session) });
  return server;
}

interface Asking {
  readonly era: Era;
  readonly context: ServerContext;
  readonly caller: Caller;
  readonly exchange: Exchange;
}

async function answered(parts: McpParts, asking: Asking, asked: Asked): Promise<CallToolResult> {
  const { calls } = parts;
  const { caller, exchange } = asking;
  const { offer, args, reference } = asked;
  return await asTaken(
    parts,
    asking,
    reference === undefined
      ? await calls.call(caller, offer, args, exchange)
      : await calls.result(caller, reference, exchange, calledIn(asked)),
  );
}

/** Tells the client that its call goes on as it can take it: as a task, or in words. */
async function asTaken(
  { tasks }: McpParts,
  { era, context }: Asking,
  { reply, goesOn }: Told,
): Promise<CallToolResult> {
  if (goesOn === undefined || era !== 'modern' || !takesTasks(context)) return reply;
  return extensionBegun(await tasks.begun(goesOn.made, goesOn.pending), reply);
}

async function begunAsTask(
  { calls, tasks }: McpParts,
  { caller, exchange }: Asking,
  asked: Asked,
): Promise<CallToolResult> {
  const { offer, args, reference } = asked;
  const made =
    reference === undefined
      ? await calls.make(caller, offer, args, exchange)
      : await calls.findMatching(caller, reference, calledIn(asked));
  if ('reply' in made) throw notBegun(made);
  return legacyBegun(await tasks.begun(made));
}

interface Asked {
  readonly offer: Offer;
  readonly args: JsonObject;
  readonly reference: string | undefined;
}

function calledIn({ offer: { server, definition }, args }: Asked): Called {
  return { server, tool: definition.name, arguments: args };
}

function askedReference({ reference }: JsonObject): string {
  if (typeof reference === 'string' && reference.length <= MOST_REFERENCE) return reference;
  throw invalid('reference must be the reference that the waiting call returned, as text.');
}

function referenceIn(meta: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const reference = meta?.[REFERENCE_META];
  if (reference === undefined || (typeof reference === 'string' && reference.length <= MOST_REFERENCE))
    return reference;
  throw invalid(`_meta["${REFERENCE_META}"] must be the reference of an earlier call, as text.`);
}

const MOST_REFERENCE = 100;

function exchangeOf({ mcpReq }: ServerContext, { deliveryOf, gone, left }: Session): Exchange {
  const token = mcpReq._meta?.progressToken;
  let count = 0;
  const progress = (message: string): void => {
    // A client that has gone is noticed by `gone`.
    mcpReq
      .notify({
        method: 'notifications/progress',
        params: { progressToken: token ?? '', progress: (count += 1), message },
      })
      .catch(() => undefined);
  };
  return {
    gone: AbortSignal.any([mcpReq.signal, gone]),
    hasLeft: () => mcpReq.signal.aborted || left.aborted,
    delivered: deliveryOf(mcpReq.id),
    ...(token !== undefined && { progress }),
  };
}

function unknownTool(name: string, found: readonly Offer[]): ProtocolError {
  const names = found.map((each) => each.name);
  const near = nearNames(name, names);
  const hint = near.length > 0 ? ` Did you mean ${near.map(visible).join(', ')}?` : '';
  return invalid(
    `No tool is offered under the name ${bounded(visible(name), 128)}, and this request ran nothing.${hint} An earlier call under this name may have run: ask ${RESULT_TOOL} with its reference.`,
  );
}

/** Tells trouble as an error of the protocol with our code. Words of an error without a code stay here. */
async function toldInWords<T>(act: () => Promise<T>, { onTrouble }: Pick<McpParts, 'onTrouble'>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    const { code, message } =
      error instanceof CountersignError ? error : { code: 'INTERNAL' as const, message: nameOf(error) };
    onTrouble(code, message);
    const told = code === 'INTERNAL' ? FAILED : message;
    throw new ProtocolError(ProtocolErrorCode.InternalError, `${code}: ${told}`, { code });
  }
}

const FAILED =
  'The gateway has failed, and does not know whether the call was started. Make exactly the same call again: a call that may run only once is found, and not made twice.';
