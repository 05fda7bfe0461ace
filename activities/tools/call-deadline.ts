/**
 * The time that a call has, which stands still while people are asked.
 */
export interface CallDeadline {
  /** Stands still from now on. @returns what lets it run again; as many as there are must do so */
  hold(): () => void;
  /** For how long it has stood still so far. */
  heldMs(): number;
  stop(): void;
}

/**
 * @param onPassed called once, where the time is over
 * @param onGoesOn called each time it runs again
 */
export function startDeadline(timeoutMs: number, onPassed: () => void, onGoesOn?: () => void): CallDeadline {
  let leftMs = timeoutMs;
  let runningSince = performance.now();
  let heldMs = 0;
  let heldSince = 0;
  let holders = 0;
  let isOver = false;
  const pass = (): void => {
    if (isOver) return;
    isOver = true;
    onPassed();
  };
  let timer = setTimeout(pass, leftMs);
  return {
    hold: () => {
      holders += 1;
      if (holders === 1) {
        clearTimeout(timer);
        heldSince = performance.now();
        leftMs = Math.max(0, leftMs - (heldSince - runningSince));
        // Whoever holds it again and again would leave its timer no time to ring.
        if (leftMs === 0) pass();
      }
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        holders -= 1;
        if (holders > 0 || isOver) return;
        runningSince = performance.now();
        heldMs += runningSince - heldSince;
        timer = setTimeout(pass, leftMs);
        onGoesOn?.();
      };
    },
    heldMs: () => Math.round(holders === 0 ? heldMs : heldMs + performance.now() - heldSince),
    stop: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}
