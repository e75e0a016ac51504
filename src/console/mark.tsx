/** The mark of the service: the picture of the page's icon. */
export const ServiceMark = () => (
  <img class="mark" src={document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href} alt="" />
);
