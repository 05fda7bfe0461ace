/**
 * The engine's own cost: the least that a Temporal workflow can do for the same agent. One model activity and one tool
 * activity a turn, one notice, one update with a validator. No policy, no ledger, no expiry, no digest.
 * `rawStretches` does it with stretches: one activity goes on until somebody must be asked, or the agent is done.
 * `rawRecorded` does the same with what durability and people ask of the engine, and nothing else: a record that
 * Temporal has acknowledged before each turn's calls, a deadline, and a request that lists show. It is the floor of
 * this service.
 */
import {
  condition,
  defineUpdate,
  proxyActivities,
  setHandler,
  upsertMemo,
  upsertSearchAttributes,
} from '@temporalio/workflow';

interface Said {
  /** The final answer. */
  readonly text?: string;
  readonly tool?: string;
  readonly gated?: boolean;
  readonly arguments?: object;
}

interface RawActivities {
  model(run: string, done: number): Promise<Said>;
  notifyApprover(run: string): Promise<void>;
  callTool(tool: string, given: object): Promise<unknown>;
  /** Tells the approver itself. */
  stretch(run: string, before: number): Promise<{ readonly done: number; readonly said: Said }>;
  /** The same, with a record before each call. */
  recorded(run: string, before: number): Promise<{ readonly done: number; readonly said: Said }>;
}

const { model, notifyApprover, callTool, stretch, recorded } = proxyActivities<RawActivities>({
  startToCloseTimeout: '1 minute',
  retry: { maximumAttempts: 3 },
});

export const decide = defineUpdate<string, [{ decision: string }]>('decide');

export async function rawRun(run: string): Promise<string> {
  const gate = openGate();
  for (let done = 0; ; done += 1) {
    const said = await model(run, done);
    if (said.tool === undefined) return said.text ?? '';
    if (said.gated === true) {
      gate.ask();
      await notifyApprover(run);
      await gate.decided();
    }
    await callTool(said.tool, said.arguments ?? {});
  }
}

export async function rawStretches(run: string): Promise<string> {
  const gate = openGate();
  // The activity tells the approver before its result is here, so the decision may be first.
  gate.ask();
  for (let before = 0; ;) {
    const { done, said } = await stretch(run, before);
    if (said.tool === undefined) return said.text ?? '';
    await gate.decided();
    await callTool(said.tool, said.arguments ?? {});
    before = done + 1;
  }
}

/** An attribute that a dev server and a namespace of this service both have. */
const SHOWN = 'CountersignStatus';
const HOUR_MS = 3_600_000;

export async function rawRecorded(run: string): Promise<string> {
  const gate = openGate();
  gate.ask();
  for (let before = 0; ;) {
    const { done, said } = await recorded(run, before);
    if (said.tool === undefined) {
      upsertSearchAttributes({ [SHOWN]: ['completed'] });
      return said.text ?? '';
    }
    upsertSearchAttributes({ [SHOWN]: ['waiting'] });
    upsertMemo({ waits: [run] });
    await gate.decided(HOUR_MS);
    upsertSearchAttributes({ [SHOWN]: ['running'] });
    upsertMemo({ waits: [] });
    await callTool(said.tool, said.arguments ?? {});
    before = done + 1;
  }
}

function openGate() {
  let isPending = false;
  let decision: string | undefined;
  setHandler(
    decide,
    (given: { decision: string }) => {
      decision = given.decision;
      return 'accepted';
    },
    {
      validator: (_given: { decision: string }) => {
        if (!isPending || decision !== undefined) throw new Error('nothing to decide');
      },
    },
  );
  return {
    ask(): void {
      isPending = true;
    },
    /** @param mostMs until then; for ever without it */
    async decided(mostMs?: number): Promise<void> {
      await (mostMs === undefined
        ? condition(() => decision !== undefined)
        : condition(() => decision !== undefined, mostMs));
      isPending = false;
    },
  };
}
