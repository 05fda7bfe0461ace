/**
 * The engine's own cost: the least that a Temporal workflow can do for the same agent. One model activity and one tool
 * activity a turn, one notice, one update with a validator. No policy, no ledger, no expiry, no digest.
 */
import { condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';

interface Proposed {
  readonly final?: string;
  readonly tool?: string;
  readonly step?: number;
  readonly gated?: boolean;
}

interface RawActivities {
  model(run: string, turn: number): Promise<Proposed>;
  notifyApprover(run: string): Promise<void>;
  callTool(run: string, tool: string, step: number): Promise<unknown>;
}

const { model, notifyApprover, callTool } = proxyActivities<RawActivities>({
  startToCloseTimeout: '1 minute',
  retry: { maximumAttempts: 3 },
});

export const decide = defineUpdate<string, [{ decision: string }]>('decide');

export async function rawRun(run: string): Promise<string> {
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
  const isDecided = (): boolean => decision !== undefined;
  for (let turn = 1; ; turn += 1) {
    const proposed = await model(run, turn);
    if (proposed.tool === undefined) return proposed.final ?? '';
    if (proposed.gated === true) {
      isPending = true;
      await notifyApprover(run);
      await condition(isDecided);
      isPending = false;
    }
    await callTool(run, proposed.tool, proposed.step ?? 0);
  }
}
