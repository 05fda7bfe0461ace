/**
 * The time that a call has, which stands still while people are asked.
 */
export interface CallDeadline {
  /** Stands still from now on. @returns what lets it run again; as many as there are must do so */
  hold(): () => void;
  stop(): void;
}

/** @param onPassed called once, where the time is over */
export function startDeadline(timeoutMs: number, onPassed: () => void): CallDeadline {
  let leftMs = timeoutMs;
  let runningSince = performance.now();
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
        leftMs = Math.max(0, leftMs - (performance.now() - runningSince));
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
        timer = setTimeout(pass, leftMs);
      };
    },
    stop: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}
