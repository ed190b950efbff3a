/* Small helpers to make elements. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
    for (const [name, value] of Object.entries(props || {})) {
        if (value === null || value === undefined || value === false)
            continue;
        if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else
            element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
}

/* h("button", {id: "go", onclick: begin}, "Go") */
export function h(tag, props, ...children) {
    return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
    return fill(document.createElementNS(SVG, tag), props, children);
}

/* Text that is set again and again: only a change touches the document, and is read aloud. */
export function say(element, text) {
    if (element.textContent !== text)
        element.textContent = text;
}

export function show(element, shown) {
    element.hidden = !shown;
}

/* Calls `draw` at the next frame, once, however often it is asked for; at most every `ms()`. */
export function throttled(draw, ms) {
    let asked = false, last = 0;
    const run = (now) => {
        if (now - last < ms()) {
            requestAnimationFrame(run);
            return;
        }
        asked = false;
        last = now;
        draw();
    };
    return () => {
        if (!asked)
            requestAnimationFrame(run);
        asked = true;
    };
}

export const number = (value) => Number(value).toLocaleString("en-US");
