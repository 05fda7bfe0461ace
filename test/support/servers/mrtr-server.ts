/**
 * Serves an MCP server of 2026-07-28 that asks people before it goes on. It uses the SDK's own server, so its
 * handling of answers and states is not ours. It records every `tools/call` and every execution.
 */
import {
  acceptedContent,
  createRequestStateCodec,
  inputRequired,
  inputResponse,
  Server,
} from '@modelcontextprotocol/server';
import { defined } from '../../../contracts/defined.ts';
import { later } from './asking-server.ts';
import { type SdkServer, serveSdk } from './sdk-server.ts';

export interface MrtrServer extends SdkServer {
  /** Every `tools/call`, in order. */
  readonly legs: readonly {
    readonly tool: string;
    readonly key: string;
    readonly state: string | undefined;
    /** Names of the questions that the call answers. */
    readonly answers: readonly string[];
  }[];
  /** Executed work, in the words of the tool. */
  readonly executed: readonly string[];
  /** States that were issued, as the client gets them. */
  readonly states: readonly string[];
  /** Makes calls wait until the returned function is called. */
  hold(): () => void;
  /** Refuses, from now on, every state that was issued. */
  expireStates(): void;
  /** Changes the question of `deploy` from now on, and the field of the second question of `book`. */
  changeQuestions(): void;
  /** Restores the first behaviour and clears the records; states that were issued stay invalid. */
  reset(): void;
}

const object = { type: 'object' } as const;
export const MRTR_TOOLS = ['deploy', 'book', 'visit', 'think', 'stubborn', 'again', 'insecure', 'survey'].map(
  (name) => ({
    name,
    inputSchema: object,
  }),
);

/** One field of each kind that a form may have. */
const SURVEY = {
  mail: { type: 'string', format: 'email', title: 'E-mail' },
  day: { type: 'string', format: 'date' },
  seats: { type: 'integer', minimum: 1, maximum: 4, default: 2 },
  window: { type: 'boolean', default: true },
  coach: {
    type: 'string',
    oneOf: [
      { const: 'q', title: 'Quiet' },
      { const: 'f', title: 'Family' },
    ],
  },
  meals: { type: 'array', minItems: 1, items: { type: 'string', enum: ['soup', 'salad', 'cake'] }, default: ['soup'] },
  note: { type: 'string', maxLength: 200 },
};

export async function startMrtrServer(): Promise<MrtrServer> {
  const legs: MrtrServer['legs'][number][] = [];
  let held: Promise<void> = Promise.resolve();
  const executed: string[] = [];
  const states: string[] = [];
  let epoch = 0;
  let changed = false;
  const codec = createRequestStateCodec<{ epoch: number; step: number; name?: string }>({
    key: 'k'.repeat(32),
    ttlSeconds: 3_600,
  });
  const mint = async (step: number, name?: string): Promise<string> => {
    const state = await codec.mint({ epoch, step, ...defined({ name }) });
    states.push(state);
    return state;
  };
  const done = (text: string): { content: { type: 'text'; text: string }[] } => {
    executed.push(text);
    return { content: [{ type: 'text', text }] };
  };
  const form = (
    message: string,
    properties: object,
    required: string[] = [],
  ): ReturnType<typeof inputRequired.elicit> =>
    inputRequired.elicit({
      message,
      // Sound: the tests write schemas in their wire form.
      requestedSchema: { ...object, properties: properties as Record<string, { type: 'boolean' }>, required },
    });

  const served = await serveSdk((headers) => {
    const server = new Server(
      { name: 'mrtr', version: '1' },
      {
        capabilities: { tools: {} },
        requestState: {
          verify: async (state, ctx) => {
            const opened = await codec.verify(state, ctx);
            if (opened.epoch !== epoch) throw new Error('expired');
            return opened;
          },
        },
      },
    );
    server.setRequestHandler('tools/list', () => ({ tools: [...MRTR_TOOLS] }));
    server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
      const { inputResponses } = mcpReq;
      const state = mcpReq.requestState<{ step: number; name?: string }>();
      legs.push({
        tool: params.name,
        key: headers.get('idempotency-key') ?? '',
        state: state && JSON.stringify(state),
        answers: Object.keys(inputResponses ?? {}),
      });
      await held;
      switch (params.name) {
        case 'deploy': {
          const answer = inputResponse(inputResponses, 'confirm');
          if (answer.kind === 'elicit' && answer.action !== 'accept') return done(`not deployed: ${answer.action}`);
          const given = acceptedContent<{ sure: boolean }>(inputResponses, 'confirm');
          if (state !== undefined && given !== undefined) return done(`deployed, sure: ${given.sure}`);
          const message = changed ? 'Deploy ALL services?' : 'Deploy to production?';
          const confirm = form(message, { sure: { type: 'boolean' } }, ['sure']);
          return inputRequired({ inputRequests: { confirm }, requestState: await mint(1) });
        }
        case 'book': {
          const name = acceptedContent<{ name: string }>(inputResponses, 'who')?.name ?? state?.name;
          const paid = acceptedContent<{ card?: string; account?: string }>(inputResponses, 'pay');
          if (state?.step === 2 && paid !== undefined) return done(`booked for ${state.name}, ${JSON.stringify(paid)}`);
          if (name !== undefined && state !== undefined) {
            const pay = changed
              ? form('Pay how?', { account: { type: 'string' } }, ['account'])
              : form('Pay how?', { card: { type: 'string', enum: ['visa', 'amex'] } }, ['card']);
            return inputRequired({ inputRequests: { pay }, requestState: await mint(2, name) });
          }
          const who = form('For whom?', { name: { type: 'string', minLength: 2 } }, ['name']);
          return inputRequired({ inputRequests: { who }, requestState: await mint(1) });
        }
        case 'survey': {
          const said = acceptedContent<Record<string, string>>(inputResponses, 'form');
          if (said !== undefined) return done(`surveyed: ${JSON.stringify(said)}`);
          return inputRequired({ inputRequests: { form: form('About you', SURVEY, ['mail', 'seats', 'meals']) } });
        }
        case 'visit': {
          const answer = inputResponse(inputResponses, 'page');
          if (answer.kind === 'elicit') return done(`visited: ${answer.action}`);
          const page = inputRequired.elicitUrl({ message: 'Sign in.', url: 'https://id.example:8443/in?x=1' });
          return inputRequired({ inputRequests: { page } });
        }
        case 'insecure': {
          const page = inputRequired.elicitUrl({ message: 'Sign in.', url: 'http://id.example/in' });
          return inputRequired({ inputRequests: { page } });
        }
        case 'think':
          return inputRequired({
            inputRequests: { thought: inputRequired.createMessage({ messages: [], maxTokens: 10 }) },
          });
        case 'again':
          if (state?.step === 2) return done('done at last');
          return inputRequired({ requestState: await mint((state?.step ?? 0) + 1) });
        default:
          return inputRequired({
            inputRequests: { more: form('More?', { text: { type: 'string' } }) },
            requestState: await mint(1),
          });
      }
    });
    return server;
  });
  return {
    ...served,
    legs,
    executed,
    states,
    hold: () => {
      const { promise, resolve } = later<void>();
      held = promise;
      return () => resolve();
    },
    expireStates: () => {
      epoch += 1;
    },
    changeQuestions: () => {
      changed = true;
    },
    reset: () => {
      epoch += 1;
      changed = false;
      for (const list of [legs, executed, states]) list.length = 0;
    },
  };
}
