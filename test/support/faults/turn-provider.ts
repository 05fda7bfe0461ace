/**
 * Serves a model provider that answers each model by a plan, turn by turn, and can hold the answer to one turn. So a
 * worker can be killed during a model step, and what was asked again can be counted.
 *
 * 1. The turn is told by the conversation that was sent, so an answer that was asked for twice is the same twice.
 */
import type { ServerResponse } from 'node:http';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { chatDialect } from '../models/chat.ts';
import { objects, said, type SaidPart, stringOf } from '../models/dialect.ts';
import { Holds } from '../servers/holds.ts';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';

/** Calls of one turn, as `server/tool`; the purpose of each is the name of its plan. */
export type Plan = readonly (readonly string[])[];

export interface TurnProvider {
  /** Makes the models of the configuration, one for each plan. */
  models(): NonNullable<ConfigInput['models']>;
  /** Turns for which the model of this plan was asked, in order. */
  turns(plan: string): readonly number[];
  /** Texts of the newest request to the model of this plan. */
  texts(plan: string): readonly string[];
  /** Keeps the answers to this turn from now on. */
  hold(plan: string, turn: number): void;
  /** Waits until this many answers to a turn are kept; the result resolves when the clients have left. */
  held(plan: string, turn: number, count?: number): Promise<{ readonly left: Promise<unknown> }>;
  /** Sends what is kept, and keeps nothing more of this turn. */
  release(plan: string, turn: number): void;
  close(): Promise<void>;
}

/** @param plans by name; after its last turn a model says that it is done */
export async function startTurnProvider(plans: Readonly<Record<string, Plan>>): Promise<TurnProvider> {
  const asked: { readonly plan: string; readonly turn: number; readonly body: JsonObject }[] = [];
  const held = new Map<string, Promise<unknown>[]>();
  const holds = new Holds();
  const keyOf = (plan: string, turn: number): string => `${plan} ${turn}`;
  const answer = (response: ServerResponse, plan: string, turn: number): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of chatDialect.events(said(partsOf(plans[plan] ?? [], plan, turn)))) response.write(event);
    response.end();
  };
  const server = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((text) => {
      // Sound: an AI SDK model sends a JSON object.
      const body = JSON.parse(text) as JsonObject;
      const plan = stringOf(body['model']);
      const turn = objects(body['messages']).filter(({ role }) => role === 'assistant').length + 1;
      asked.push({ plan, turn, body });
      const kept = held.get(keyOf(plan, turn));
      if (kept === undefined) return answer(response, plan, turn);
      kept.push(new Promise((resolve) => response.once('close', resolve)));
      holds.hold(() => answer(response, plan, turn), keyOf(plan, turn));
    });
  });
  return {
    models: () =>
      Object.fromEntries(
        Object.keys(plans).map((model) => [
          model,
          {
            provider: 'openai-compatible' as const,
            model,
            baseUrl: `${server.origin}/v1`,
            maxOutputTokens: 256,
            timeoutSeconds: 300,
          },
        ]),
      ),
    turns: (plan) => asked.filter((request) => request.plan === plan).map(({ turn }) => turn),
    texts: (plan) => {
      const newest = asked.findLast((request) => request.plan === plan);
      return newest === undefined ? [] : chatDialect.echo(newest.body).texts;
    },
    hold: (plan, turn) => void held.set(keyOf(plan, turn), []),
    held: async (plan, turn, count = 1) => {
      await holds.held(keyOf(plan, turn), count);
      return { left: Promise.all(held.get(keyOf(plan, turn)) ?? []) };
    },
    release: (plan, turn) => {
      holds.release(keyOf(plan, turn));
      held.delete(keyOf(plan, turn));
    },
    close: server.close,
  };
}

function partsOf(plan: Plan, purpose: string, turn: number): readonly SaidPart[] {
  const calls = plan[turn - 1] ?? [];
  if (calls.length === 0) return [{ type: 'text', text: 'Done.' }];
  return calls.map((tool, index) => ({
    type: 'call',
    id: `call-${turn}-${index}`,
    name: tool.replace('/', '__'),
    json: JSON.stringify({ purpose }),
  }));
}
