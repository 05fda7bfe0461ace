/**
 * Dispatches to a server that asks on its open connection, and plays a run that puts the question before
 * somebody. The activities are assembled as in a worker; the activity environment and Temporal's client are mocks.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../../activities/catalog/reader.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import type { InputResponse } from '../../../contracts/schemas/input.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { InputPause } from '../../../contracts/schemas/request.ts';
import type { HeldAck, HeldPlace, HeldQuestions, HeldWord } from '../../../contracts/wire/legacy-2025.ts';
import type { ProvisionProof } from '../../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../domain/request/digest.ts';
import type { OfferedTool } from '../../../domain/run/toolset.ts';
import { canonicalServerUrl } from '../../../domain/text/urls.ts';
import { toolSideActivities } from '../../../workers/composition.ts';
import { allowedDispatch, inActivity, RUN, RUN_ID } from './tool-activities.ts';

/** People's answer to the one question of a request; undefined if nobody answers. */
export type Answer = (asked: HeldQuestions) => InputResponse | undefined;

export interface HeldScene {
  readonly offered: readonly OfferedTool[];
  readonly asked: readonly { readonly updateId: string; readonly questions: HeldQuestions }[];
  call(tool: string, args: JsonObject, more?: Partial<DispatchInput>): Promise<DispatchResult>;
}

export interface HeldSceneOptions {
  readonly url: string;
  readonly answer: Answer;
  /** The question that the run shows instead; whoever answers means this one. */
  readonly shows?: (about: InputPause) => InputPause;
  /** Changes the proof of the run. */
  readonly prove?: (proof: ProvisionProof) => ProvisionProof;
  /** Settings of the server in the configuration. */
  readonly server?: object;
  readonly policy?: object;
  /** Called before the run answers; may change the configuration. */
  readonly meanwhile?: (config: Config) => void;
}

/**
 * Temporal's client as an activity uses it. There is no catalog, a run was never reset, and its questions are answered.
 */
export interface HeldClient {
  readonly client: Client;
  readonly asked: readonly { readonly updateId: string; readonly questions: HeldQuestions }[];
}

type Answering = Pick<HeldSceneOptions, 'answer' | 'prove' | 'shows'> & {
  /** The dispatch in flight. */
  readonly dispatch: () => DispatchInput | undefined;
  readonly meanwhile?: () => void;
};

/** The first event of a run that was never reset. */
const FIRST = {
  workflowExecutionStartedEventAttributes: { originalExecutionRunId: RUN_ID, firstExecutionRunId: RUN_ID },
};

export function heldClient({ dispatch, answer, meanwhile, ...options }: Answering): HeldClient {
  const { prove = (proof: ProvisionProof) => proof, shows } = options;
  const asked: { readonly updateId: string; readonly questions: HeldQuestions }[] = [];
  const word = ({ round }: HeldPlace): HeldWord => {
    const questions = asked.findLast((each) => each.questions.round === round)?.questions;
    const response = questions && answer(questions);
    const input = dispatch();
    if (questions === undefined || input === undefined) return { kind: 'closed' };
    if (response === undefined) return { kind: 'open' };
    meanwhile?.();
    return { kind: 'answered', provided: prove(answeredQuestion(input, questions, response, shows)) };
  };
  const client = {
    connection: {
      withDeadline: async (_: number, act: () => Promise<unknown>) => await act(),
      withAbortSignal: async (_: AbortSignal, act: () => Promise<unknown>) => await act(),
    },
    options: { namespace: RUN.namespace },
    workflowService: {
      getWorkflowExecutionHistory: async () => await Promise.resolve({ history: { events: [FIRST] } }),
    },
    workflow: {
      getHandle: (id: string, runId?: string) => ({
        query: async (name: string, place: HeldPlace) =>
          name === 'heldInput' && runId !== undefined
            ? await Promise.resolve(word(place))
            : await Promise.reject(new WorkflowNotFoundError('none', id, undefined)),
        executeUpdate: async (
          _: 'inputAsked',
          { args: [questions], updateId }: { args: [HeldQuestions]; updateId: string },
        ): Promise<HeldAck> => {
          // The copy has the form that Temporal keeps.
          asked.push({ updateId, questions: structuredClone(questions) });
          return await Promise.resolve({ deadline: '2026-01-01T01:00:00.000Z' });
        },
      }),
    },
  };
  // Sound: the activities ask for a catalog and for what is answered here, and for nothing else.
  return { client: client as unknown as Client, asked };
}

export async function heldScene(options: HeldSceneOptions): Promise<HeldScene> {
  const { url, server: over, policy, meanwhile, ...answering } = options;
  let dispatch: DispatchInput | undefined;
  const config = Config.parse({
    servers: {
      peer: { url, credentials: { kind: 'none' }, protocol: 'legacy', elicitation: { holdSeconds: 60 }, ...over },
    },
    policy: { strategy: 'never', ...policy },
    egress: { allowLoopback: true },
  });
  const { client, asked } = heldClient({
    ...answering,
    dispatch: () => dispatch,
    meanwhile: () => meanwhile?.(config),
  });
  const artifacts = createMemoryStore();
  const loaded = { config, baseDirectory: '/nowhere', path: undefined };
  const activities = await toolSideActivities(loaded, artifacts, client);
  const server = { name: 'peer', url: canonicalServerUrl(url) };
  const found = await inActivity(activities.discoverTools, { run: RUN, server });
  if (!('tools' in found)) throw new Error(found.authorization.message);
  const toolset = [{ server: server.name, tools: found.tools }];
  const offered = await createToolsetLoader(artifacts)(toolset);
  return {
    offered,
    asked,
    call: async (name, args, more = { hold: { seconds: 60 } }) => {
      const tool = offered.find(({ definition }) => definition.name === name);
      if (tool === undefined) throw new Error(`no tool ${name}`);
      dispatch = { ...allowedDispatch(tool, args, toolset, { server }), ...more };
      return await inActivity(activities.callTool, dispatch);
    },
  };
}

const PERSON = { id: 'ann', groups: [], tenant: 'default' };

/** Makes a valid proof of the answer. */
export function answeredQuestion(
  { run, runId, callId, target, arguments: args }: DispatchInput,
  { round, requests }: HeldQuestions,
  response: InputResponse,
  shows: (about: InputPause) => InputPause = (about) => about,
): ProvisionProof {
  const approvers = { allOf: [{ layer: 'default' as const, ids: [PERSON.id], groups: [] }] };
  const about = shows({ kind: 'input', round, requests, held: true });
  const generation = round;
  const { namespace, workflowId } = run;
  const { tenant } = run.initiator;
  const parts = { namespace, tenant, workflowId, runId, callId, generation, target, arguments: args, approvers, about };
  const now = Date.now();
  const said = { decisionId: `d${round}`, callId, digest: requestDigest(parts), runId, approver: PERSON };
  return {
    provision: { kind: 'provide', ...said, responses: { question: response } },
    about,
    generation,
    approvers,
    definitionHash: target.definitionHash,
    openedAt: new Date(now - 1_000).toISOString(),
    deadline: new Date(now + 60_000).toISOString(),
    decidedAt: new Date(now).toISOString(),
  };
}
