/**
 * Lists the ways in which a tool fails, with the required result of each: at the server, in the ledger, and
 * for the model.
 */
import { acts, type Behaviour, succeedWith } from '../servers/raw-server.ts';

export const LARGE_BYTES = 5 * 1024 * 1024;

const lateAnswer = succeedWith('done at last');

export interface Fault {
  readonly behave: Behaviour;
  readonly outcome: 'succeeded' | 'failed' | 'unknown';
  readonly code?: string;
  /** Number of executions at the server. */
  readonly executions: 0 | 1;
  readonly told: RegExp;
  /** Number of times that the run sent the call. */
  readonly sent?: number;
}

const NOT_KNOWN = /not known whether this call was executed .*Do not repeat it/s;
const NOT_EXECUTED = /^Not executed/;
const unknown = { outcome: 'unknown', code: 'OUTCOME_UNKNOWN', told: NOT_KNOWN } as const;

/** The server asks for another second once, and acts then. */
const askedToWait = (status: 429 | 503): Fault => ({
  behave: (exchange, attempt) =>
    attempt === 1 ? exchange.status(status, { 'retry-after': '1' }) : lateAnswer(exchange, attempt),
  outcome: 'succeeded',
  executions: 1,
  told: /at last/,
  sent: 2,
});

/** @param elsewhere a URL of another origin, for the redirect */
export const faultsOf = (elsewhere: string): Readonly<Record<string, Fault>> => ({
  'a plain answer': { behave: succeedWith('done'), outcome: 'succeeded', executions: 1, told: /^done$/ },
  'an error of the tool': {
    behave: acts((exchange) =>
      exchange.result({ isError: true, content: [{ type: 'text', text: 'no such account' }] }),
    ),
    outcome: 'failed',
    code: 'TOOL_FAILED',
    executions: 1,
    told: /The tool ran and reported an error.*no such account/s,
  },
  'a token refused (401)': {
    behave: (exchange) => exchange.status(401),
    outcome: 'failed',
    code: 'TOOL_UNAUTHORIZED',
    executions: 0,
    told: NOT_EXECUTED,
  },
  'a call forbidden (403)': {
    behave: (exchange) => exchange.status(403, {}, 'not you'),
    outcome: 'failed',
    code: 'TOOL_FORBIDDEN',
    executions: 0,
    told: /^Not executed.*not you/,
  },
  'a scope missing (403 insufficient_scope)': {
    behave: (exchange) =>
      exchange.status(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="files:write"' }),
    outcome: 'failed',
    code: 'TOOL_INSUFFICIENT_SCOPE',
    executions: 0,
    told: /^Not executed.*files:write/,
  },
  'a 500 before it acts': { behave: (exchange) => exchange.status(500), executions: 0, ...unknown },
  'a 500 after it acted': {
    behave: acts((exchange) => exchange.status(500)),
    executions: 1,
    ...unknown,
  },
  'a stream that ends without an answer': {
    behave: (exchange) => {
      exchange.execute();
      exchange.stream(': working\n\n');
      exchange.response.end();
    },
    executions: 1,
    ...unknown,
  },
  'a connection reset before the answer': {
    behave: acts((exchange) => exchange.reset()),
    executions: 1,
    ...unknown,
  },
  'no byte at all': { behave: (exchange) => exchange.execute(), executions: 1, ...unknown },
  'a stream that stays open and says nothing': {
    behave: acts((exchange) => exchange.stream(': working\n\n')),
    executions: 1,
    ...unknown,
  },
  'half an answer': {
    behave: acts((exchange) => exchange.json('{"jsonrpc":"2.0","id":1,"resu')),
    executions: 1,
    ...unknown,
  },
  'the answer to another request': {
    behave: acts((exchange) => exchange.json('{"jsonrpc":"2.0","id":"somebody-else","result":{"content":[]}}')),
    executions: 1,
    ...unknown,
  },
  'a result of 5 MB': {
    behave: succeedWith('x'.repeat(LARGE_BYTES)),
    outcome: 'succeeded',
    executions: 1,
    told: /^x{1000,}.*\[Cut: \d+ of 52429\d\d bytes/s,
  },
  'a tool that has vanished': {
    behave: (exchange) => exchange.error(-32_602, 'Unknown tool'),
    outcome: 'failed',
    code: 'TOOL_UNKNOWN',
    executions: 0,
    told: NOT_EXECUTED,
  },
  'a 429 with Retry-After': askedToWait(429),
  'a 503 with Retry-After': askedToWait(503),
  'a redirect to another origin': {
    behave: (exchange) => exchange.status(307, { location: elsewhere }),
    executions: 0,
    ...unknown,
  },
  'a redirect to itself, after it acted': {
    behave: acts((exchange) => exchange.status(307, { location: '/mcp' })),
    executions: 1,
    ...unknown,
  },
  'the token echoed': {
    behave: (exchange) => succeedWith(`you sent ${String(exchange.request.headers.authorization)}`)(exchange, 1),
    outcome: 'succeeded',
    executions: 1,
    told: /^you sent Bearer \[redacted\]$/,
  },
});
