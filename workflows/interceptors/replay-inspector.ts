/**
 * Shows a replay worker every command of every activation. In the bundle of replays only
 * (`workers/replay/semantics.ts`).
 */
import { type ConcludeActivationInput, proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

/** A command as the SDK hands it to its core, with payloads not yet encoded. */
export type Command = ConcludeActivationInput['commands'][number];

export interface InspectorSinks extends Sinks {
  readonly replayInspector: { commands(commands: readonly Command[]): void };
}

export function interceptors(): WorkflowInterceptors {
  const { replayInspector } = proxySinks<InspectorSinks>();
  return {
    internals: [
      {
        concludeActivation: (input, next) => {
          const output = next(input);
          if (output.commands.length > 0) replayInspector.commands(output.commands);
          return output;
        },
      },
    ],
  };
}
