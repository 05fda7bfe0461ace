/**
 * This program is the client that the conformance suite tests. It runs a worker's tool activities, assembled as in a
 * worker, in a mocked activity environment. It discovers the server's tools, calls each offered one, and answers the
 * server's questions.
 *
 * Its argument is the server's URL; `MCP_CONFORMANCE_*` say what is tested. The exit code is 1 if a call did not end as
 * its scenario permits.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../../activities/catalog/reader.ts';
import { defined } from '../../../contracts/defined.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import type { OfferedTool } from '../../../domain/run/toolset.ts';
import { canonicalServerUrl } from '../../../domain/text/urls.ts';
import { toolSideActivities } from '../../../workers/composition.ts';
import { heldClient } from '../activities/held-activity.ts';
import { allowedDispatch, inActivity, RUN } from '../activities/tool-activities.ts';
import { answeredDispatch } from './answers.ts';
import { authorizing, type ConformanceContext, sealing } from './credentials.ts';

const [url = ''] = process.argv.slice(2);
const { MCP_CONFORMANCE_SCENARIO: scenario = '', MCP_CONFORMANCE_PROTOCOL_VERSION: version = '' } = process.env;
// Sound: the suite writes the value, and each field is checked where it is used.
const context = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}') as ConformanceContext & {
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: JsonObject }[];
};

const SERVER = { name: 'peer', url: canonicalServerUrl(url) };

/** Arguments for tools whose scenario names none. */
const ARGUMENTS: Readonly<Record<string, JsonObject>> = { add_numbers: { a: 5, b: 3 } };

/** This tool takes the other tool's schema as the client has it, for comparison with what the server sent. */
const ECHO = 'json_schema_echo';

/** Scenarios that end with the listing, because their servers list a tool that they cannot call. */
const LISTED_ONLY: readonly string[] = ['json-schema-ref-no-deref'];

/**
 * This scenario asks on a call's connection and expects its own proposal back. A person accepts the proposal here; a
 * worker never does.
 */
const PROPOSES = 'elicitation-sep1034-client-defaults';

/**
 * There is no catalog and no Temporal server here; of the run, only a person exists, who accepts a form's defaults.
 */
let dispatched: DispatchInput | undefined;
const { client } = heldClient({
  dispatch: () => dispatched,
  answer: ({ requests: { question } }) => ({
    action: 'accept',
    content: Object.fromEntries(
      Object.entries(question?.kind === 'form' ? question.fields : {}).flatMap(([name, field]) =>
        field.default === undefined ? [] : [[name, field.default]],
      ),
    ),
  }),
});

/** Returns the arguments that the scenario expects, or one call with the least that the tool needs. */
function argumentsOf({ definition }: OfferedTool, all: readonly OfferedTool[]): readonly JsonObject[] {
  if (definition.name === ECHO) {
    const [described] = all.filter((other) => other.definition.name !== ECHO);
    return [{ schema: described?.definition.inputSchema ?? {} }];
  }
  const wanted = context.toolCalls?.filter(({ name }) => name === definition.name) ?? [];
  return wanted.length > 0 ? wanted.map((call) => call.arguments) : [ARGUMENTS[definition.name] ?? {}];
}

const directory = await mkdtemp(join(tmpdir(), 'countersign-conformance-'));
const failures: DispatchResult[] = [];
try {
  const { grant, grants, credentials } = scenario.startsWith('auth/')
    ? await authorizing(SERVER, context, directory)
    : { credentials: { kind: 'none' as const }, ...(scenario.includes('sep-2322') ? await sealing(directory) : {}) };
  const granted = grant === undefined ? {} : { grant };
  const config = Config.parse({
    servers: {
      peer: {
        url,
        credentials,
        protocol: version === '2026-07-28' ? 'auto' : 'legacy',
        ...(scenario === PROPOSES ? { elicitation: { holdSeconds: 60 } } : {}),
      },
    },
    policy: { strategy: 'never' },
    egress: { allowLoopback: true },
    ...defined({ grants }),
  });
  const artifacts = createMemoryStore();
  const loaded = { config, baseDirectory: directory, path: undefined };
  const activities = await toolSideActivities(loaded, artifacts, client);
  const found = await inActivity(activities.discoverTools, { run: RUN, server: SERVER, ...granted });
  if (!('tools' in found)) throw new Error(found.authorization.message);
  const toolset = [{ server: SERVER.name, tools: found.tools }];
  let at = 0;
  const offered = await createToolsetLoader(artifacts)(toolset);
  for (const tool of LISTED_ONLY.includes(scenario) ? [] : offered) {
    for (const args of argumentsOf(tool, offered)) {
      let dispatch: DispatchInput = {
        ...allowedDispatch(tool, args, toolset, { at: at++, server: SERVER }),
        ...granted,
      };
      if (scenario === PROPOSES) dispatch = { ...dispatch, hold: { seconds: 60 } };
      dispatched = dispatch;
      if (grants !== undefined) dispatch = { ...dispatch, input: { provided: [] } };
      let result = await inActivity(activities.callTool, dispatch);
      while (result.kind === 'input') {
        dispatch = answeredDispatch(dispatch, result);
        result = await inActivity(activities.callTool, dispatch);
      }
      if (result.kind !== 'ended' || result.outcome.kind !== 'succeeded') failures.push(result);
    }
  }
} finally {
  await rm(directory, { recursive: true, force: true });
}
for (const failure of failures) process.stderr.write(`${scenario}: ${JSON.stringify(failure)}\n`);
process.exit(failures.length > 0 ? 1 : 0);
